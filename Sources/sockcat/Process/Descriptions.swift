import ActorSockets

extension StandardError {
  /// `peer` is `nil` if the peer has no address; `proxy` is the proxy or load balancer between the two.
  static func describe(_ peer: String?, _ state: String, through proxy: SocketAddress?) {
    let name = peer.map { "\($0): " } ?? ""
    write(line: "sockcat: \(name)\(state)\(proxy.map { ", through \($0)" } ?? "")")
  }

  static func describe(client: SocketAddress?, _ state: String, through proxy: SocketAddress?) {
    describe(client.flatMap { $0.isUnix ? nil : "\($0)" }, state, through: proxy)
  }
}
