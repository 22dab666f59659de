internal import COpenSSL
internal import SocketSystem

/// The lists are replaced as a whole, so a verification sees the old ones or the new ones.
final class RevocationStore: Sendable {
  private let lists: Locked<RevocationLists>

  init(_ revocation: TLSRevocation) throws(TLSError) { lists = Locked(try RevocationLists(revocation)) }

  var current: RevocationLists { lists.withLock { $0 } }

  /// If that fails, the old lists stay.
  func replace(_ revocation: TLSRevocation) throws(TLSError) {
    let new = try RevocationLists(revocation)
    lists.withLock { $0 = new }
  }
}

/// OpenSSL's `STACK_OF(X509_CRL)`, which does not change after `init`. OpenSSL sorts the entries of a list on first
/// use, under a lock of that list.
final class RevocationLists: Sendable {
  let revocation: TLSRevocation
  private let stack: OpenSSLObject

  init(_ revocation: TLSRevocation) throws(TLSError) {
    // SAFETY: the object owns the stack, and the stack a reference to each list.
    stack = try unsafe OpenSSLObject(OPENSSL_sk_new_null()) { stack in
      unsafe OPENSSL_sk_pop_free(stack) { unsafe X509_CRL_free($0.map { OpaquePointer($0) }) }
    }
    self.revocation = revocation
    guard case .crls(let sources, _) = revocation else { return }
    if sources.isEmpty { throw ConfigurationCheck.invalid("there is no revocation list to check certificates against") }
    for source in sources {
      switch source {
      case .file(let path): try read(Source.file(path).read(), from: .file(path))
      case .bytes(let bytes): try read(bytes, from: .bytes)
      }
    }
  }

  // SAFETY: the stack is this value's.
  var count: Int { max(0, Int(unsafe OPENSSL_sk_num(stack.pointer))) }

  // MARK: Reading

  private func read(_ bytes: [UInt8], from source: Source) throws(TLSError) {
    if PEM.isPEM(bytes) { try read(pem: bytes, from: source) } else { try read(der: bytes, from: source) }
  }

  private func read(pem bytes: [UInt8], from source: Source) throws(TLSError) {
    let before = count
    try unsafe withBIO(reading: bytes) { bio throws(TLSError) in
      // SAFETY: the BIO lives during the call, and each list gets an owner. Lists are never encrypted; if a file claims
      // so, the callback keeps OpenSSL from asking for a passphrase at the terminal.
      while let list = unsafe PEM_read_bio_X509_CRL(bio, nil, { _, _, _, _ in -1 }, nil) { try unsafe add(list) }
      let errors = OpenSSLErrors.take()
      guard errors.contains(library: Int32(ERR_LIB_PEM), reason: PEM_R_NO_START_LINE) else {
        throw source.badFile(
          "has a revocation list that cannot be read, number \(count - before + 1)", reason: errors.text)
      }
    }
    if count == before { throw source.badFile("has no revocation list in PEM form") }
    if let clause = PEM.unknownBlock(in: bytes) { throw source.badFile(clause) }
  }

  private func read(der bytes: [UInt8], from source: Source) throws(TLSError) {
    // SAFETY: what is found gets an owner.
    let (list, isWhole) = unsafe DER.read(bytes) { unsafe d2i_X509_CRL(nil, $0, $1) }
    guard let list = unsafe list else {
      throw source.badFile("has no revocation list in PEM or DER form", reason: OpenSSLErrors.take().text)
    }
    try unsafe add(list)
    guard isWhole else { throw source.badFile("has something behind the revocation list") }
  }

  // SAFETY: the caller gives up its reference, which the stack takes over or this frees.
  private func add(_ list: OpaquePointer) throws(TLSError) {
    guard unsafe OPENSSL_sk_push(stack.pointer, UnsafeRawPointer(list)) > 0 else {
      unsafe X509_CRL_free(list)
      throw OpenSSLErrors.take().failure()
    }
  }

  // MARK: Verifying

  func withLists(on store: OpaquePointer, _ verify: () -> Bool) -> Bool {
    // SAFETY: the caller's context lives during the call, and so do the lists; afterwards the context has no lists.
    guard case .crls(_, let scope) = revocation else { return verify() }
    let flags = X509_V_FLAG_CRL_CHECK | (scope == .chain ? X509_V_FLAG_CRL_CHECK_ALL : 0)
    unsafe X509_VERIFY_PARAM_set_flags(X509_STORE_CTX_get0_param(store), UInt(flags))
    unsafe X509_STORE_CTX_set_verify_cb(store, excuseTrustRoot)
    unsafe X509_STORE_CTX_set0_crls(store, stack.pointer)
    defer { unsafe X509_STORE_CTX_set0_crls(store, nil) }
    return verify()
  }
}

/// `X509_STORE_CTX_set_verify_cb`: continues the verification if there is no usable list for a trust root. The program
/// trusts the root, and the root's issuer may not be in the chain. A root that is on a list is refused all the same.
private func excuseTrustRoot(_ isGood: Int32, _ store: OpaquePointer?) -> Int32 {
  // SAFETY: OpenSSL passes the verification's context, which lives during the callback.
  guard isGood == 0, let store = unsafe store else { return isGood }
  let code = TLSError.Code(verification: unsafe X509_STORE_CTX_get_error(store))
  guard code.isAboutMissingList, unsafe isAtTrustRoot(store) else { return isGood }
  unsafe X509_STORE_CTX_set_error(store, X509_V_OK)
  return 1
}

/// A trust root is the last certificate of the chain, or one that was given as a root although the peer sent its issuer, too.
private func isAtTrustRoot(_ store: OpaquePointer) -> Bool {
  // SAFETY: as above; the connection, if there is one, lives during the verification.
  let last = unsafe OPENSSL_sk_num(X509_STORE_CTX_get0_chain(store)) - 1
  if unsafe X509_STORE_CTX_get_error_depth(store) == last { return true }
  guard let ssl = unsafe X509_STORE_CTX_get_ex_data(store, SSL_get_ex_data_X509_STORE_CTX_idx()),
    let trust = unsafe TLSHandshakeState.of(OpaquePointer(ssl))?.context.trust,
    let certificate = unsafe X509_STORE_CTX_get_current_cert(store).flatMap({ unsafe try? Certificate(sharing: $0) })
  else { return false }
  return trust.roots.contains { $0.isSame(as: certificate) }
}

extension TLSError.Code {
  /// The certificate may be good: only the list to check it against is missing or out of date.
  var isAboutMissingList: Bool { self == .revocationUnknown || self == .revocationListExpired }
}
