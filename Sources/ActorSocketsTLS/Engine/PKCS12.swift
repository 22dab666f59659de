internal import COpenSSL

/// RFC 7292.
enum PKCS12 {
  /// The certificates begin with the key's own.
  static func read(
    _ bytes: [UInt8], from source: Source, _ passphrase: (() -> String?)?
  ) throws(TLSError) -> ([Certificate], PrivateKey) {
    // SAFETY: the file is freed here.
    guard let file = unsafe DER.read(bytes, { unsafe d2i_PKCS12(nil, $0, $1) }).object else {
      throw source.badFile("is no PKCS#12 file", reason: OpenSSLErrors.take().text)
    }
    defer { unsafe PKCS12_free(file) }

    // OpenSSL opens a file without a MAC only if nothing in it is encrypted.
    if unsafe PKCS12_mac_present(file) != 1 { return try unsafe contents(of: file, passphrase: nil, source) }
    let answer = passphrase?()
    let text = try unsafe Self.passphrase(opening: file, answer, source)
    return try unsafe contents(of: file, passphrase: text, source)
  }

  /// A missing passphrase and an empty one mean the same, but files encode them differently.
  private static func passphrase(
    opening file: OpaquePointer, _ answer: String?, _ source: Source
  ) throws(TLSError) -> String? {
    // SAFETY: the caller's file and the text live during the calls.
    let candidates: [String?] = answer?.isEmpty ?? true ? [nil, ""] : [answer]
    for candidate in candidates where unsafe PKCS12_verify_mac(file, candidate, -1) == 1 { return candidate }
    let errors = OpenSSLErrors.take()
    let reason = errors.text
    if errors.lacksAlgorithm {
      throw source.badFile("has a MAC of a kind that this OpenSSL does not support; export it again", reason: reason)
    }
    let clause =
      answer == nil ? "is encrypted, and no passphrase was given" : "is encrypted, and the passphrase is wrong"
    throw TLSError(.wrongPassphrase, detail: "\(source.name) \(clause)", reason: reason)
  }

  private static func contents(
    of file: OpaquePointer, passphrase: String?, _ source: Source
  ) throws(TLSError) -> ([Certificate], PrivateKey) {
    var key: OpaquePointer?
    var own: OpaquePointer?
    var others: OpaquePointer?
    // SAFETY: the results belong to this function, which passes them to owners or frees them.
    guard unsafe PKCS12_parse(file, passphrase, &key, &own, &others) == 1 else {
      let errors = OpenSSLErrors.take()
      let clause =
        if errors.lacksAlgorithm {
          "is encrypted with an algorithm that OpenSSL no longer supports; export it again"
        } else if unsafe PKCS12_mac_present(file) != 1 {
          "has no MAC, and such a file is supported only if it is not encrypted; export it again with a MAC"
        } else {
          "has something that cannot be read"
        }
      throw source.badFile(clause, reason: errors.text)
    }
    defer { unsafe OPENSSL_sk_pop_free(others) { unsafe X509_free($0.map { OpaquePointer($0) }) } }
    let ownedKey = try unsafe key.map { pointer throws(TLSError) in try unsafe PrivateKey(owning: pointer) }
    let ownedCertificate = try unsafe own.map { pointer throws(TLSError) in try unsafe Certificate(owning: pointer) }
    guard let ownedKey else { throw source.badFile("has no private key") }
    guard let ownedCertificate else { throw source.badFile("has no certificate for its key") }
    let rest = unsafe Certificate.shared(from: others)
    return (ordered(ownedCertificate, rest), ownedKey)
  }

  /// Orders the certificates so that each follows the one that it signed, because such files have no order.
  /// Certificates outside of the chain are left out.
  static func ordered(_ own: Certificate, _ others: [Certificate]) -> [Certificate] {
    var chain = [own]
    var rest = others
    while let next = rest.firstIndex(where: { $0.isIssuer(of: chain[chain.count - 1]) }) {
      chain.append(rest.remove(at: next))
    }
    return chain
  }
}

extension Certificate {
  fileprivate func isIssuer(of other: Certificate) -> Bool {
    // SAFETY: both live during the call.
    unsafe X509_check_issued(pointer, other.pointer) == X509_V_OK && !isSame(as: other)
  }
}
