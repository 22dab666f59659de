internal import COpenSSL

/// The contents of the thread's error queue. The first entry is nearest to the cause; each later one failed because of
/// the one before it.
struct OpenSSLErrors {
  struct Entry {
    let library: Int32
    let reason: Int32
    let text: String
  }

  let entries: [Entry]

  static func take() -> OpenSSLErrors {
    var entries: [Entry] = []
    while true {
      let code = ERR_get_error()
      if code == 0 { return OpenSSLErrors(entries: entries) }
      // SAFETY: the text is static, or nil.
      let text = unsafe ERR_reason_error_string(code)
      entries.append(
        Entry(
          library: ERR_GET_LIB(code), reason: ERR_GET_REASON(code),
          text: unsafe text.map { unsafe String(cString: $0) } ?? "error \(code)"))
    }
  }

  /// The code that calls OpenSSL does this before the call, so that later entries belong to the call.
  static func clear() {
    isReady
    // The queue is nearly always empty, and a look is cheaper than clearing all of its entries.
    if ERR_peek_error() != 0 { ERR_clear_error() }
  }

  /// Keeps OpenSSL from freeing its data in exit(3). Reactors and tasks still run then, and one that released a
  /// connection would use freed memory.
  private static let isReady: Void = { _ = OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_ATEXIT), nil) }()

  var text: String { entries.first?.text ?? "" }

  func contains(library: Int32, reason: Int32) -> Bool {
    entries.contains { $0.library == library && $0.reason == reason }
  }

  var lacksAlgorithm: Bool { contains(library: Int32(ERR_LIB_EVP), reason: copenssl_ERR_R_UNSUPPORTED) }

  /// An error for a call that fails only if memory runs out.
  func failure() -> TLSError { TLSError(.internalError, reason: text) }
}
