/// What happens to bytes that arrived before a handshake, and that nobody has read.
public enum EarlyBytes: Hashable, Sendable {
  /// They are an error, ``TLSError/Code/plaintextBeforeTLS``: somebody between the two ends may have put them there, to have
  /// them taken for bytes of the encrypted stream. The default.
  case refused
  /// They are the beginning of the handshake, as behind the header of a PROXY protocol that came in the same segment. Plain
  /// text among them still fails, for it is no handshake.
  case asHandshake
}
