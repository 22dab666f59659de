internal import COpenSSL

extension PrivateKey {
  convenience init(generating kind: TLSIdentity.KeyKind) throws(TLSError) {
    OpenSSLErrors.clear()
    // SAFETY: the new key is passed to its owner at once.
    switch kind {
    case .ecdsaP256: try unsafe self.init(owning: copenssl_EVP_EC_gen("P-256"))
    case .rsa2048: try unsafe self.init(owning: copenssl_EVP_RSA_gen(2048))
    }
  }
}

extension Certificate {
  /// A peer that trusts this certificate does not trust others that its key signs, because it is not an authority's.
  /// Both times are in seconds since 1970, and at most in the year 9999.
  convenience init(
    selfSignedWith key: PrivateKey, for names: [String], notBefore: Int, notAfter: Int
  ) throws(TLSError) {
    guard !names.isEmpty else { throw TLSError(.invalidServerName, detail: "a certificate needs a name") }
    let alternatives = try Self.alternativeNames(names)
    OpenSSLErrors.clear()
    // SAFETY: the pointer is used while `self` lives.
    try unsafe self.init(owning: X509_new())
    let serial = try RandomBytes.make(16)
    let isDone =
      unsafe X509_set_version(pointer, Int(X509_VERSION_3)) == 1
      && Self.set(serial: serial, of: pointer)
      && ASN1_TIME_set(X509_getm_notBefore(pointer), notBefore) != nil
      && ASN1_TIME_set(X509_getm_notAfter(pointer), notAfter) != nil
      && X509_set_pubkey(pointer, key.pointer) == 1
      && Self.setSubjectAndIssuer(pointer, String(names[0].prefix(64)))
    guard isDone else { throw OpenSSLErrors.take().failure() }
    let extensions = [
      (NID_basic_constraints, "critical,CA:FALSE"), (NID_key_usage, "critical,digitalSignature"),
      (NID_ext_key_usage, "serverAuth,clientAuth"), (NID_subject_alt_name, alternatives),
    ]
    for (kind, value) in extensions { try unsafe Self.add(kind, value, to: pointer) }
    guard unsafe X509_sign(pointer, key.pointer, EVP_sha256()) > 0 else { throw OpenSSLErrors.take().failure() }
  }

  /// In the notation of x509v3_config(5). The names were checked, so they contain no comma.
  private static func alternativeNames(_ names: [String]) throws(TLSError) -> String {
    var parts: [String] = []
    for name in names {
      let (name, isWildcard) = try ServerName.pattern(name)
      switch name {
      case .host(let host): parts.append("DNS:\(isWildcard ? "*." : "")\(host)")
      case .address(_, let text): parts.append("IP:\(text)")
      }
    }
    return parts.joined(separator: ",")
  }

  private static func set(serial: [UInt8], of certificate: OpaquePointer) -> Bool {
    // SAFETY: the number is freed here after it was copied; the certificate is the caller's.
    var positive = serial
    positive[0] &= 0x7f
    guard let number = unsafe BN_bin2bn(positive, Int32(positive.count), nil) else { return false }
    defer { unsafe BN_free(number) }
    return unsafe BN_to_ASN1_INTEGER(number, X509_get_serialNumber(certificate)) != nil
  }

  private static func setSubjectAndIssuer(_ certificate: OpaquePointer, _ commonName: String) -> Bool {
    // SAFETY: the name is freed here after it was copied; the certificate is the caller's.
    guard let name = unsafe X509_NAME_new() else { return false }
    defer { unsafe X509_NAME_free(name) }
    let text = Array(commonName.utf8)
    return unsafe X509_NAME_add_entry_by_txt(name, "CN", MBSTRING_FLAG | 0, text, Int32(text.count), -1, 0) == 1
      && X509_set_subject_name(certificate, name) == 1 && X509_set_issuer_name(certificate, name) == 1
  }

  private static func add(_ kind: Int32, _ value: String, to certificate: OpaquePointer) throws(TLSError) {
    // SAFETY: the context refers to the caller's certificate during the call only.
    var context = unsafe X509V3_CTX()
    unsafe X509V3_set_ctx(&context, certificate, certificate, nil, nil, 0)
    guard let made = unsafe X509V3_EXT_conf_nid(nil, &context, kind, value) else {
      throw OpenSSLErrors.take().failure()
    }
    defer { unsafe X509_EXTENSION_free(made) }
    guard unsafe X509_add_ext(certificate, made, -1) == 1 else { throw OpenSSLErrors.take().failure() }
  }
}
