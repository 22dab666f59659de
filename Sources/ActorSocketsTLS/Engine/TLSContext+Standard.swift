extension TLSContext {
  /// The context of clients that name none, made at its first use. It resumes no sessions, because what one part of a program connects to
  /// must not change the handshakes of another part.
  static let standard = Result { () throws(TLSError) -> TLSContext in
    try TLSContext(.with { $0.allowsResumption = false })
  }
}
