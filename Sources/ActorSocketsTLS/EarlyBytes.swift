/// How a handshake treats bytes that arrived before it began and that no read has taken.
public enum EarlyBytes: Hashable, Sendable {
  /// Fails with ``TLSError/Code/plaintextBeforeTLS``. The default.
  ///
  /// An attacker between the two ends may have inserted the bytes, so that they are taken for bytes of the encrypted
  /// stream.
  case refused
  /// Takes the bytes as the beginning of the handshake, for example after the header of a PROXY protocol in the same
  /// segment.
  ///
  /// If they are plain text, the handshake fails, because they are not the beginning of a handshake.
  case asHandshake
}
