internal import COpenSSL
internal import SocketSystem

/// OpenSSL's `X509`.
final class Certificate: Sendable {
  let object: OpenSSLObject

  // SAFETY: the caller gives up a reference.
  init(owning pointer: OpaquePointer?) throws(TLSError) {
    object = try unsafe OpenSSLObject(pointer) { unsafe X509_free($0) }
  }

  // SAFETY: the caller's certificate lives during the call and gets one more reference.
  convenience init(sharing pointer: OpaquePointer) throws(TLSError) {
    unsafe X509_up_ref(pointer)
    try unsafe self.init(owning: pointer)
  }

  // SAFETY: the caller's stack lives during the call, and each of its certificates gets one more reference.
  static func shared(from stack: OpaquePointer?) -> [Certificate] {
    unsafe elements(of: stack).compactMap { unsafe try? Certificate(sharing: $0) }
  }

  // SAFETY: the pointer is used while `self` lives; a caller that keeps it takes its own reference.
  var pointer: OpaquePointer { unsafe object.pointer }
}

// MARK: - Reading

extension Certificate {
  /// Returns at least one certificate: all of a text in PEM form, or the only one in DER form.
  static func read(
    _ bytes: [UInt8], from source: Source, allowsUnknownBlocks: Bool = false
  ) throws(TLSError) -> [Certificate] {
    guard PEM.isPEM(bytes) else { return [try read(der: bytes, from: source)] }
    return try read(pem: bytes, from: source, allowsUnknownBlocks: allowsUnknownBlocks)
  }

  static func read(
    pem bytes: [UInt8], from source: Source, allowsUnknownBlocks: Bool = false
  ) throws(TLSError) -> [Certificate] {
    guard PEM.isPEM(bytes) else { throw source.badFile("has no certificate in PEM form") }
    if !allowsUnknownBlocks, let clause = PEM.unknownBlock(in: bytes) { throw source.badFile(clause) }
    return try unsafe withBIO(reading: bytes) { bio throws(TLSError) in
      var certificates: [Certificate] = []
      // SAFETY: the BIO lives during the call, and each certificate gets an owner. Certificates are never encrypted; if
      // a file claims so, the callback keeps OpenSSL from asking for a passphrase at the terminal.
      while let found = unsafe PEM_read_bio_X509(bio, nil, { _, _, _, _ in -1 }, nil) {
        certificates.append(try unsafe Certificate(owning: found))
      }
      let errors = OpenSSLErrors.take()
      let isAtEnd = errors.contains(library: Int32(ERR_LIB_PEM), reason: PEM_R_NO_START_LINE)
      guard isAtEnd else {
        throw source.badFile(
          "has a certificate that cannot be read, number \(certificates.count + 1)", reason: errors.text)
      }
      guard !certificates.isEmpty else { throw source.badFile("has no certificate in PEM form") }
      return certificates
    }
  }

  static func read(der bytes: [UInt8], from source: Source) throws(TLSError) -> Certificate {
    // SAFETY: what is found gets an owner.
    let (found, isWhole) = unsafe DER.read(bytes) { unsafe d2i_X509(nil, $0, $1) }
    guard let found = unsafe found else {
      throw source.badFile("has no certificate in PEM or DER form", reason: OpenSSLErrors.take().text)
    }
    let certificate = try unsafe Certificate(owning: found)
    guard isWhole else { throw source.badFile("has something behind the certificate") }
    return certificate
  }
}

// MARK: - Contents

extension Certificate {
  // SAFETY (here and below): what is read belongs to the certificate, which lives as long as `self`, and is copied.
  var subject: String { unsafe Self.text(of: X509_get_subject_name(pointer)) }

  // SAFETY: as above.
  var issuer: String { unsafe Self.text(of: X509_get_issuer_name(pointer)) }

  // SAFETY: as above.
  var der: [UInt8] { unsafe encoded { unsafe i2d_X509(pointer, $0) } }

  // SAFETY: as above.
  var pem: String { unsafe String(decoding: written { unsafe PEM_write_bio_X509($0, pointer) }, as: UTF8.self) }

  // SAFETY: as above.
  var publicKeySHA256: [UInt8] {
    unsafe Digest.sha256(encoded { unsafe i2d_X509_PUBKEY(X509_get_X509_PUBKEY(pointer), $0) })
  }

  // SAFETY: as above.
  var notBefore: Int { unsafe Self.seconds(X509_get0_notBefore(pointer)) }

  // SAFETY: as above.
  var notAfter: Int { unsafe Self.seconds(X509_get0_notAfter(pointer)) }

  var serial: String {
    // SAFETY: as above; the number and its digits belong to this function, which frees them.
    let number = unsafe ASN1_INTEGER_to_BN(X509_get0_serialNumber(pointer), nil)
    defer { unsafe BN_free(number) }
    guard let digits = unsafe BN_bn2hex(number) else { return "" }
    defer { unsafe CRYPTO_free(digits, #file, #line) }
    return unsafe String(cString: digits)
  }

  // SAFETY: both live during the call.
  func isSame(as other: Certificate) -> Bool { unsafe X509_cmp(pointer, other.pointer) == 0 }

  /// Whether the certificate names itself as its issuer. The signature is not checked.
  var isSelfSigned: Bool {
    defer { OpenSSLErrors.clear() }
    // SAFETY: the certificate lives during the call.
    return unsafe X509_self_signed(pointer, 0) == 1
  }

  private static func text(of name: OpaquePointer?) -> String {
    // SAFETY: the name belongs to a certificate that the caller keeps.
    guard let name = unsafe name else { return "" }
    let flags = copenssl_XN_FLAG_RFC2253 & ~UInt(ASN1_STRFLGS_ESC_MSB)
    let text = unsafe written { unsafe X509_NAME_print_ex($0, name, 0, flags) }
    return String(decoding: text, as: UTF8.self)
  }

  /// Seconds since 1970-01-01 00:00 UTC.
  private static func seconds(_ time: UnsafePointer<ASN1_TIME>?) -> Int {
    // SAFETY: the time belongs to a certificate that the caller keeps; `epoch` is freed here.
    guard let epoch = unsafe ASN1_TIME_set(nil, 0) else { return 0 }
    defer { unsafe ASN1_STRING_free(epoch) }
    var days: Int32 = 0
    var seconds: Int32 = 0
    guard unsafe ASN1_TIME_diff(&days, &seconds, epoch, time) == 1 else {
      OpenSSLErrors.clear()
      return 0
    }
    return Int(days) * 86400 + Int(seconds)
  }
}

// MARK: - Names

extension Certificate {
  struct AlternativeNames {
    var dns: [String] = []
    var addresses: [String] = []
  }

  var alternativeNames: AlternativeNames {
    var names = AlternativeNames()
    // SAFETY: the names are a copy, which is freed here after the wanted ones were copied. The type of each says which
    // field of the union is set.
    let stack = unsafe X509_get_ext_d2i(pointer, NID_subject_alt_name, nil, nil)
    guard let stack = unsafe stack.map({ OpaquePointer($0) }) else { return names }
    defer { unsafe GENERAL_NAMES_free(stack) }
    unsafe elements(of: stack).forEach { element in
      let name = unsafe UnsafeMutablePointer<GENERAL_NAME>(element)
      switch unsafe name.pointee.type {
      case GEN_DNS: unsafe names.dns.append(String(decoding: Self.bytes(of: name.pointee.d.dNSName), as: UTF8.self))
      case GEN_IPADD: unsafe names.addresses.append(Self.address(Self.bytes(of: name.pointee.d.iPAddress)))
      default: break
      }
    }
    return names
  }

  private static func bytes(of string: UnsafeMutablePointer<ASN1_STRING>?) -> [UInt8] {
    // SAFETY: the string belongs to the caller and is copied.
    guard let string = unsafe string, let data = unsafe ASN1_STRING_get0_data(string) else { return [] }
    return unsafe UnsafeBufferPointer(start: data, count: Int(ASN1_STRING_length(string))).map { $0 }
  }

  private static func address(_ bytes: [UInt8]) -> String {
    switch bytes.count {
    case 4: IPv4Address(bytes[0], bytes[1], bytes[2], bytes[3]).description
    case 16: IPv6Address(bytes: bytes)?.description ?? ""
    default: bytes.map(String.init).joined(separator: ".")
    }
  }
}
