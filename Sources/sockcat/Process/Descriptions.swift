import ActorSockets

extension StandardError {
  /// Prints what `-v` asks for: a line about a connection.
  ///
  /// - Parameters:
  ///   - peer: The address of the peer; `nil` if it has no address.
  ///   - state: The state of the connection, in words.
  ///   - proxy: The address of the proxy or load balancer between the two.
  static func describe(_ peer: String?, _ state: String, through proxy: SocketAddress?) {
    let name = peer.map { "\($0): " } ?? ""
    write(line: "sockcat: \(name)\(state)\(proxy.map { ", through \($0)" } ?? "")")
  }

  /// Prints what `-v` asks for: a line about a connection that a listener accepted.
  static func describe(client: SocketAddress?, _ state: String, through proxy: SocketAddress?) {
    describe(client.flatMap { $0.isUnix ? nil : "\($0)" }, state, through: proxy)
  }
}
