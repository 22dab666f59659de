internal import COpenSSL
internal import SocketSystem

struct VerificationFinding {
  private let number: Int32
  private let certificate: Certificate?
  /// The position in the chain; 0 is the peer's own certificate.
  private let depth: Int
  private let own: Certificate?
  /// The trust root that the chain leads to although it cannot end there.
  private let partialAnchor: Certificate?

  init(_ store: OpaquePointer, _ number: Int32, _ trust: TrustStore) {
    // SAFETY: the caller's store lives during the call; certificates are shared.
    self.number = number
    partialAnchor = unsafe trust.partialAnchor(of: Certificate.shared(from: X509_STORE_CTX_get0_chain(store)))
    certificate = unsafe X509_STORE_CTX_get_current_cert(store).flatMap { unsafe try? Certificate(sharing: $0) }
    own = unsafe X509_STORE_CTX_get0_cert(store).flatMap { unsafe try? Certificate(sharing: $0) }
    depth = max(0, Int(unsafe X509_STORE_CTX_get_error_depth(store)))
  }

  init(_ number: Int32) {
    self.number = number
    certificate = nil
    own = nil
    partialAnchor = nil
    depth = 0
  }

  func error(serverName: ServerName?) -> TLSError {
    let code = TLSError.Code(verification: number)
    return TLSError(
      code, detail: detail(code, serverName), reason: Self.text(of: number), certificate: (certificate ?? own)?.subject)
  }

  private static func text(of number: Int32) -> String {
    // SAFETY: the text is static.
    unsafe String(cString: X509_verify_cert_error_string(Int(number)))
  }

  private var whose: String {
    depth == 0 ? "the peer's certificate" : "a certificate between the peer's and the root"
  }

  private func detail(_ code: TLSError.Code, _ serverName: ServerName?) -> String {
    switch code {
    case .expired:
      guard let certificate else { return "" }
      return
        "\(whose) was valid until \(certificate.notAfterText); it has to be renewed, or this machine's clock is wrong"
    case .notYetValid:
      guard let certificate else { return "" }
      return "\(whose) is not valid before \(certificate.notBeforeText); this machine's clock may be wrong"
    case .nameMismatch: return nameDetail(serverName)
    case .revoked: return "\(whose) was revoked by its issuer"
    case .revocationUnknown where number == X509_V_ERR_UNABLE_TO_GET_CRL:
      return "there is no revocation list for \(whose): none of its issuer was loaded"
    case .revocationUnknown: return "the revocation list for \(whose) cannot be used"
    case .revocationListExpired where number == X509_V_ERR_CRL_NOT_YET_VALID:
      return "the revocation list for \(whose) is not valid yet; this machine's clock may be wrong"
    case .revocationListExpired:
      return
        "the revocation list for \(whose) has expired; a newer one has to be loaded, or this machine's clock is wrong"
    case .unknownAuthority: return anchorDetail
    case .weakCertificate: return "\(whose) has a key or a signature that is too weak"
    case .wrongPurpose where depth > 0:
      return "a certificate in the peer's chain may not sign others, as one of an authority may"
    case .wrongPurpose: return "\(whose) is not meant for what it is used for here"
    default: return ""
    }
  }

  private var anchorDetail: String {
    guard let partialAnchor else { return "" }
    let root = AddressError.quote(partialAnchor.subject)
    return "the chain leads to the trust root \(root), which is not self-signed; "
      + "trust the root that issued it, or set the configuration's acceptsPartialChains"
  }

  private func nameDetail(_ serverName: ServerName?) -> String {
    guard let own, let serverName else { return "" }
    let names = own.alternativeNames
    let all = names.dns + names.addresses
    let shown = all.prefix(5).map(AddressError.quote).joined(separator: ", ") + (all.count > 5 ? ", …" : "")
    let what = all.isEmpty ? "names no host" : "is for \(shown)"
    return "the server's certificate \(what), and not for \(AddressError.quote(serverName.text))"
  }
}

extension TLSError.Code {
  /// `number` is an `X509_V_ERR_…`.
  init(verification number: Int32) {
    self =
      switch number {
      case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT, X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY,
        X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE, X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN, X509_V_ERR_CERT_UNTRUSTED,
        X509_V_ERR_CERT_REJECTED:
        .unknownAuthority
      case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT: .selfSigned
      case X509_V_ERR_CERT_HAS_EXPIRED: .expired
      case X509_V_ERR_CERT_NOT_YET_VALID: .notYetValid
      case X509_V_ERR_HOSTNAME_MISMATCH, X509_V_ERR_IP_ADDRESS_MISMATCH, X509_V_ERR_EMAIL_MISMATCH: .nameMismatch
      case X509_V_ERR_INVALID_PURPOSE, X509_V_ERR_INVALID_CA, X509_V_ERR_INVALID_NON_CA,
        X509_V_ERR_KEYUSAGE_NO_CERTSIGN, X509_V_ERR_KEYUSAGE_NO_DIGITAL_SIGNATURE:
        .wrongPurpose
      case X509_V_ERR_CERT_CHAIN_TOO_LONG, X509_V_ERR_PATH_LENGTH_EXCEEDED: .chainTooLong
      case X509_V_ERR_PERMITTED_VIOLATION, X509_V_ERR_EXCLUDED_VIOLATION, X509_V_ERR_SUBTREE_MINMAX,
        X509_V_ERR_UNSUPPORTED_CONSTRAINT_TYPE, X509_V_ERR_UNSUPPORTED_CONSTRAINT_SYNTAX,
        X509_V_ERR_UNSUPPORTED_NAME_SYNTAX:
        .nameConstraint
      case X509_V_ERR_CERT_REVOKED: .revoked
      case X509_V_ERR_CRL_HAS_EXPIRED, X509_V_ERR_CRL_NOT_YET_VALID: .revocationListExpired
      case X509_V_ERR_UNABLE_TO_GET_CRL, X509_V_ERR_UNABLE_TO_GET_CRL_ISSUER, X509_V_ERR_CRL_SIGNATURE_FAILURE,
        X509_V_ERR_UNABLE_TO_DECRYPT_CRL_SIGNATURE, X509_V_ERR_ERROR_IN_CRL_LAST_UPDATE_FIELD,
        X509_V_ERR_ERROR_IN_CRL_NEXT_UPDATE_FIELD, X509_V_ERR_KEYUSAGE_NO_CRL_SIGN,
        X509_V_ERR_UNHANDLED_CRITICAL_CRL_EXTENSION, X509_V_ERR_DIFFERENT_CRL_SCOPE,
        X509_V_ERR_CRL_PATH_VALIDATION_ERROR:
        .revocationUnknown
      case X509_V_ERR_EE_KEY_TOO_SMALL, X509_V_ERR_CA_KEY_TOO_SMALL, X509_V_ERR_CA_MD_TOO_WEAK: .weakCertificate
      case X509_V_ERR_OUT_OF_MEM: .internalError
      default: .badCertificate
      }
  }
}

extension Certificate {
  // SAFETY (here and below): the times belong to the certificate, which lives as long as `self`.
  fileprivate var notAfterText: String {
    unsafe String(decoding: written { unsafe ASN1_TIME_print($0, X509_get0_notAfter(pointer)) }, as: UTF8.self)
  }

  // SAFETY: as above.
  fileprivate var notBeforeText: String {
    unsafe String(decoding: written { unsafe ASN1_TIME_print($0, X509_get0_notBefore(pointer)) }, as: UTF8.self)
  }
}
