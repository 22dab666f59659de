/// What a stream server does with the bytes of a connection.
public enum StreamMode: String, Sendable {
  /// Sends them back.
  case echo
  /// Reads and forgets them.
  case sink
  /// Sends them to all connections, the sender included.
  case fanout
}
