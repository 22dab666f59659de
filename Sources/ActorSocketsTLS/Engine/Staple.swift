internal import COpenSSL

/// A response of OCSP about one certificate (RFC 6960), which a server staples to that certificate (RFC 6066, section
/// 8). It must be signed by the certificate's issuer, which the chain has verified before, or by a responder whose
/// certificate this issuer signed for that purpose: RFC 6960, section 4.2.2.2.
struct Staple: ~Copyable {
  /// In bytes: as many as OpenSSL accepts with TLS 1.2.
  static let limit = 16_384
  /// The most seconds by which clocks may differ.
  static let clockSkew = 300
  /// The most seconds that a response may be old if it does not say when the next one comes.
  static let longestAge = 24 * 60 * 60

  private let response: OpenSSLObject

  /// Checks only the form of the response.
  init(_ bytes: [UInt8]) throws(TLSError) {
    guard bytes.count <= Self.limit else {
      throw Self.invalid("has \(bytes.count) bytes, and \(Self.limit) are the limit")
    }
    // SAFETY: what is found is freed here, and the part of it that is kept gets an owner.
    let (found, isWhole) = unsafe DER.read(bytes) { unsafe d2i_OCSP_RESPONSE(nil, $0, $1) }
    guard let found = unsafe found else { throw Self.invalid("is malformed", OpenSSLErrors.take()) }
    defer { unsafe OCSP_RESPONSE_free(found) }
    guard isWhole else { throw Self.invalid("has something behind it") }
    let status = unsafe OCSP_response_status(found)
    guard status == OCSP_RESPONSE_STATUS_SUCCESSFUL else {
      throw Self.invalid("says only \(unsafe String(cString: OCSP_response_status_str(Int(status))))")
    }
    guard let basic = unsafe OCSP_response_get1_basic(found) else {
      throw Self.invalid("is malformed", OpenSSLErrors.take())
    }
    response = try unsafe OpenSSLObject(basic) { unsafe OCSP_BASICRESP_free($0) }
  }

  private struct Answer {
    let status: Int32
    let isCurrent: Bool

    // SAFETY: the caller's times live during the call.
    init(
      _ status: Int32, _ thisUpdate: UnsafeMutablePointer<ASN1_GENERALIZEDTIME>?,
      _ nextUpdate: UnsafeMutablePointer<ASN1_GENERALIZEDTIME>?
    ) {
      self.status = status
      let longestAge = unsafe nextUpdate == nil ? Staple.longestAge : -1
      isCurrent = unsafe OCSP_check_validity(thisUpdate, nextUpdate, Staple.clockSkew, longestAge) == 1
      OpenSSLErrors.clear()
    }
  }

  // MARK: Verifying

  /// Throws `.stapleInvalid`, `.revoked`, or `.revocationUnknown` if the issuer does not know the certificate. The
  /// caller has verified `issuer`.
  func verify(for certificate: Certificate, by issuer: Certificate) throws(TLSError) {
    try verifySignature(issuer)
    switch try Self.status(answer(about: certificate, by: issuer)) {
    case V_OCSP_CERTSTATUS_GOOD: return
    case V_OCSP_CERTSTATUS_REVOKED:
      throw TLSError(.revoked, detail: "the server's certificate was revoked, says the OCSP response that it stapled")
    default:
      throw TLSError(
        .revocationUnknown,
        detail: "the issuer does not know the server's certificate, says the OCSP response that it stapled")
    }
  }

  /// A server checks only that its response is current and has the certificate's serial number.
  func check(for certificate: Certificate) throws(TLSError) { _ = try Self.status(answer(about: certificate)) }

  private static func status(_ answer: Answer?) throws(TLSError) -> Int32 {
    guard let answer else { throw invalid("is about other certificates") }
    guard answer.isCurrent else { throw invalid("is out of date, or this machine's clock is wrong") }
    return answer.status
  }

  private func verifySignature(_ issuer: Certificate) throws(TLSError) {
    OpenSSLErrors.clear()
    // SAFETY: the store belongs to this function, and the stack lives during the call.
    let trusted = try CertificateStack([issuer])
    let store = try unsafe OpenSSLObject(X509_STORE_new()) { unsafe X509_STORE_free($0) }
    let parameters = unsafe X509_STORE_get0_param(store.pointer)
    unsafe X509_VERIFY_PARAM_set_flags(parameters, UInt(X509_V_FLAG_PARTIAL_CHAIN))
    unsafe X509_VERIFY_PARAM_set_auth_level(parameters, ContextSettings.securityLevel)
    guard unsafe X509_STORE_add_cert(store.pointer, issuer.pointer) == 1 else { throw OpenSSLErrors.take().failure() }
    let flags = UInt(OCSP_TRUSTOTHER | OCSP_NOEXPLICIT)
    let isGood = withExtendedLifetime(trusted) {
      unsafe OCSP_basic_verify(response.pointer, trusted.pointer, store.pointer, flags) == 1
    }
    if !isGood { throw Self.invalid("is not signed by the issuer of the certificate or for it", OpenSSLErrors.take()) }
    OpenSSLErrors.clear()
  }

  /// A response names the issuer by its hash, which is one of these.
  private func answer(about certificate: Certificate, by issuer: Certificate) -> Answer? {
    // SAFETY: the digests are static; the name of the certificate is freed here; the times belong to the response.
    for digest in ["SHA1", "SHA256", "SHA384", "SHA512"] {
      guard let name = unsafe OCSP_cert_to_id(EVP_get_digestbyname(digest), certificate.pointer, issuer.pointer) else {
        continue
      }
      defer { unsafe OCSP_CERTID_free(name) }
      var status: Int32 = 0
      var thisUpdate: UnsafeMutablePointer<ASN1_GENERALIZEDTIME>?
      var nextUpdate: UnsafeMutablePointer<ASN1_GENERALIZEDTIME>?
      if unsafe OCSP_resp_find_status(response.pointer, name, &status, nil, nil, &thisUpdate, &nextUpdate) == 1 {
        return unsafe Answer(status, thisUpdate, nextUpdate)
      }
    }
    OpenSSLErrors.clear()
    return nil
  }

  private func answer(about certificate: Certificate) -> Answer? {
    // SAFETY: what is found belongs to the response or the certificate, which live during the call.
    let wanted = unsafe X509_get0_serialNumber(certificate.pointer)
    for index in 0..<max(0, unsafe OCSP_resp_count(response.pointer)) {
      let single = unsafe OCSP_resp_get0(response.pointer, index)
      var serial: UnsafeMutablePointer<ASN1_INTEGER>?
      let name = unsafe OCSP_SINGLERESP_get0_id(single)
      guard unsafe OCSP_id_get0_info(nil, nil, nil, &serial, name) == 1, unsafe ASN1_INTEGER_cmp(serial, wanted) == 0
      else { continue }
      var thisUpdate: UnsafeMutablePointer<ASN1_GENERALIZEDTIME>?
      var nextUpdate: UnsafeMutablePointer<ASN1_GENERALIZEDTIME>?
      let status = unsafe OCSP_single_get0_status(single, nil, nil, &thisUpdate, &nextUpdate)
      return unsafe Answer(status, thisUpdate, nextUpdate)
    }
    return nil
  }

  private static func invalid(_ clause: String, _ errors: OpenSSLErrors? = nil) -> TLSError {
    TLSError(.stapleInvalid, detail: "the stapled OCSP response \(clause)", reason: errors?.text ?? "")
  }
}

extension Certificate {
  /// Whether the certificate says that its server always staples a response: the TLS feature `status_request`, RFC 7633.
  var mustStaple: Bool {
    // SAFETY: the features are a copy, which is freed here.
    defer { OpenSSLErrors.clear() }
    let found = unsafe X509_get_ext_d2i(pointer, NID_tlsfeature, nil, nil)
    guard let features = unsafe found.map({ OpaquePointer($0) }) else { return false }
    defer {
      unsafe OPENSSL_sk_pop_free(features) { unsafe ASN1_INTEGER_free($0?.assumingMemoryBound(to: ASN1_INTEGER.self)) }
    }
    return unsafe elements(of: features).contains {
      unsafe ASN1_INTEGER_get(UnsafePointer($0)) == Int(TLSEXT_TYPE_status_request)
    }
  }
}
