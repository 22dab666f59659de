internal import COpenSSL

/// What was in the thread's queue of errors.
///
/// Each entry has a library and a reason. The first is nearest to the cause; those behind it say what failed because of it.
struct OpenSSLErrors {
  struct Entry {
    let library: Int32
    let reason: Int32
    let text: String
  }

  let entries: [Entry]

  /// Takes everything out of the queue of this thread.
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

  /// Empties the queue, so that what is in it afterwards belongs to the next call. Whoever calls OpenSSL first does this before.
  static func clear() {
    isReady
    // It nearly always is empty, and looking is cheaper than clearing all its places.
    if ERR_peek_error() != 0 { ERR_clear_error() }
  }

  /// OpenSSL would free all that it holds when the process calls exit(3). Reactors and tasks run on meanwhile, and the one that
  /// lets go of a connection then would take what is freed. So it leaves that to the process's end.
  private static let isReady: Void = { _ = OPENSSL_init_crypto(UInt64(OPENSSL_INIT_NO_ATEXIT), nil) }()

  /// OpenSSL's text for what went wrong first.
  var text: String { entries.first?.text ?? "" }

  func contains(library: Int32, reason: Int32) -> Bool {
    entries.contains { $0.library == library && $0.reason == reason }
  }

  /// An error for what should not fail unless memory runs out.
  func failure() -> TLSError { TLSError(.internalError, reason: text) }
}
