internal import COpenSSL

/// OpenSSL's `EVP_PKEY`.
final class PrivateKey: Sendable {
  let object: OpenSSLObject

  // SAFETY: the caller gives up a reference.
  init(owning pointer: OpaquePointer?) throws(TLSError) {
    object = try unsafe OpenSSLObject(pointer) { unsafe EVP_PKEY_free($0) }
  }

  // SAFETY: the pointer is used while `self` lives; a caller that keeps it takes its own reference.
  var pointer: OpaquePointer { unsafe object.pointer }

  convenience init(_ bytes: [UInt8], from source: Source, _ passphrase: (() -> String?)?) throws(TLSError) {
    let prompt = PassphrasePrompt(passphrase)
    let found = try unsafe Self.read(bytes, prompt)
    let errors = OpenSSLErrors.take()
    guard unsafe found != nil else {
      if Self.lacksCipher(bytes) || prompt.answered && errors.lacksAlgorithm {
        throw source.badFile(
          "has a key that is encrypted with an algorithm that OpenSSL no longer supports; encrypt it again, "
            + "for example with AES-256", reason: errors.text)
      }
      if prompt.wasAsked { throw prompt.failure(source, reason: errors.text) }
      throw Self.failure(bytes, source, errors)
    }
    // SAFETY: `read` gives up its reference.
    try unsafe self.init(owning: found)
  }

  private static func failure(_ bytes: [UInt8], _ source: Source, _ errors: OpenSSLErrors) -> TLSError {
    guard PEM.isPEM(bytes) else { return source.badFile("has no private key in PEM or DER form", reason: errors.text) }
    // OpenSSL reports a missing key and an unreadable one alike.
    guard PEM.hasPrivateKey(bytes) else { return source.badFile("has no private key") }
    return source.badFile("has a private key that cannot be read", reason: errors.text)
  }

  private static func lacksCipher(_ bytes: [UInt8]) -> Bool {
    guard let name = PEM.cipher(in: bytes) else { return false }
    defer { OpenSSLErrors.clear() }
    // SAFETY: the text lives during the call, and what is found is freed here.
    guard let cipher = unsafe EVP_CIPHER_fetch(nil, name, nil) else { return true }
    unsafe EVP_CIPHER_free(cipher)
    return false
  }

  private static func read(_ bytes: [UInt8], _ prompt: PassphrasePrompt) throws(TLSError) -> OpaquePointer? {
    // SAFETY: the prompt outlives the calls that get it unretained; their results belong to the caller.
    let context = unsafe Unmanaged.passUnretained(prompt).toOpaque()
    if PEM.isPEM(bytes) {
      return try unsafe withBIO(reading: bytes) { unsafe PEM_read_bio_PrivateKey($0, nil, answerPassphrase, context) }
    }
    let plain = try unsafe withBIO(reading: bytes) { unsafe d2i_PrivateKey_bio($0, nil) }
    if let plain = unsafe plain { return unsafe plain }
    return try unsafe withBIO(reading: bytes) { unsafe d2i_PKCS8PrivateKey_bio($0, nil, answerPassphrase, context) }
  }
}

/// OpenSSL always gets this callback: without a callback it would ask at the terminal.
final class PassphrasePrompt {
  private let closure: (() -> String?)?
  private(set) var wasAsked = false
  var answered: Bool { answer != nil }
  private var answer: [UInt8]?

  init(_ closure: (() -> String?)?) { self.closure = closure }

  func ask() -> [UInt8]? {
    if !wasAsked { answer = closure?().map { Array($0.utf8) } }
    wasAsked = true
    return answer
  }

  func failure(_ source: Source, reason: String) -> TLSError {
    let clause =
      answer == nil ? "is encrypted, and no passphrase was given" : "is encrypted, and the passphrase is wrong"
    return TLSError(.wrongPassphrase, detail: "\(source.name) \(clause)", reason: answer == nil ? "" : reason)
  }
}

/// `pem_password_cb`.
private func answerPassphrase(
  _ buffer: UnsafeMutablePointer<CChar>?, _ size: Int32, _ isWriting: Int32, _ context: UnsafeMutableRawPointer?
) -> Int32 {
  // SAFETY: the context is the prompt, which its owner keeps during the call that asks; no more bytes than fit are
  // written.
  guard let context = unsafe context, let buffer = unsafe buffer else { return -1 }
  let prompt = unsafe Unmanaged<PassphrasePrompt>.fromOpaque(context).takeUnretainedValue()
  guard let answer = prompt.ask(), answer.count <= Int(size) else { return -1 }
  unsafe UnsafeMutableRawPointer(buffer).copyMemory(from: answer, byteCount: answer.count)
  return Int32(answer.count)
}

// MARK: - Keys with their certificates

extension PrivateKey {
  /// Refuses certificates and a key with which every handshake would fail.
  func check(belongsTo certificates: [Certificate], from source: Source) throws(TLSError) {
    guard let own = certificates.first else { throw source.badFile("has no certificate") }
    guard matches(own) else {
      let other = certificates.firstIndex(where: matches)
      let hint = other.map { ", but to number \($0 + 1) of them, which has to be the first" } ?? ""
      throw TLSError(
        .keyMismatch,
        detail:
          "the private key of \(source.name) does not belong to the \(other == nil ? "" : "first ")certificate\(hint)",
        certificate: own.subject)
    }
    try checkKind(from: source)
    try checkStrength(with: certificates, from: source)
  }

  /// The curves that TLS 1.3 has signatures for (RFC 8446, section 4.2.3), in OpenSSL's names and in those of NIST.
  private static let curves = ["prime256v1", "secp384r1", "secp521r1", "P-256", "P-384", "P-521"]

  /// OpenSSL accepts other kinds of key, too, and then fails every handshake.
  private func checkKind(from source: Source) throws(TLSError) {
    // SAFETY: the key lives during the calls, which write no more than there is room for, and a NUL.
    let kinds: [String] = ["DSA", "SM2"]
    let unusable = kinds.first { kind in unsafe EVP_PKEY_is_a(pointer, kind) == 1 }
    if let unusable { throw source.badFile("has a key of the kind \(unusable), which TLS cannot use here") }
    if unsafe EVP_PKEY_is_a(pointer, "EC") != 1 { return }
    defer { OpenSSLErrors.clear() }
    var name = [CChar](repeating: 0, count: 80)
    var length = 0
    let isNamed = unsafe EVP_PKEY_get_group_name(pointer, &name, name.count, &length) == 1
    let curve = String(decoding: name.prefix(isNamed ? length : 0).map { UInt8(bitPattern: $0) }, as: UTF8.self)
    if Self.curves.contains(curve) { return }
    let what = curve.isEmpty ? "a curve without a name" : "the curve \(curve)"
    throw source.badFile("has a key on \(what), which TLS cannot use here; use P-256, P-384 or P-521")
  }

  private func matches(_ certificate: Certificate) -> Bool {
    defer { OpenSSLErrors.clear() }
    // SAFETY: both live during the call.
    return unsafe X509_check_private_key(certificate.pointer, pointer) == 1
  }

  private func checkStrength(with certificates: [Certificate], from source: Source) throws(TLSError) {
    // SAFETY: the context is freed here and takes its own references to what it is given.
    guard let trial = unsafe SSL_CTX_new(TLS_method()) else { throw OpenSSLErrors.take().failure() }
    defer { unsafe SSL_CTX_free(trial) }
    unsafe SSL_CTX_set_security_level(trial, ContextSettings.securityLevel)
    let chain = try CertificateStack(certificates.dropFirst())
    OpenSSLErrors.clear()
    guard unsafe SSL_CTX_use_cert_and_key(trial, certificates[0].pointer, pointer, chain.pointer, 1) != 1 else {
      return
    }
    throw TLSError(
      .weakCertificate, detail: "the certificates of \(source.name) are not accepted at security level 2",
      reason: OpenSSLErrors.take().text, certificate: certificates[0].subject)
  }
}
