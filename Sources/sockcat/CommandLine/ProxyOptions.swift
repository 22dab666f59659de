import ActorSockets

struct ProxyOptions: Equatable {
  var listening = ListenOptions(endpoint: .port(0))
  var connecting = ConnectingOptions()
  var proxyHeader: ProxyHeader.Version?
}

extension ProxyOptions: CommandOptions {
  static let text = CommandText(
    name: "proxy", operands: ["LISTEN", "TARGET"],
    missingOperand: "say where to listen and where to connect to, as in: sockcat proxy :8080 example.com:80",
    summary: "forwards connections",
    text: """
      Joins every connection with a new one to TARGET, and forwards bytes, ends and resets in both directions. If \
      TARGET cannot be reached, prints the reason and resets the connection. Announces its address and stops as \
      listen does.
      """)

  static let options =
    ConnectingOptions.options.map { $0.lifted(to: \ProxyOptions.connecting) }
    + [
      Option(
        "--send-proxy-protocol", .choice(ProxyHeader.Version.words),
        """
        tells TARGET the address of the client, in a header of the PROXY protocol that begins the connection. If the \
        header has no form for the address, it says nothing (LOCAL, UNKNOWN)
        """
      ) { $0.proxyHeader = try $1.proxyProtocolVersion() }
    ] + ListenOptions.shared.map { $0.lifted(to: \ProxyOptions.listening) }

  static func parse(_ words: inout Words) throws(Failure) -> ListenOptions? {
    var options = ProxyOptions()
    guard let operands = try options.read(&words) else { return nil }
    options.listening.origin = .bind(try .parsed(operands[0]))
    let target = try Endpoint.parsed(operands[1])
    try options.connecting.check(connectingTo: target)
    options.listening.mode = .forward(
      Forwarding(
        target: target, connecting: options.connecting, proxyHeader: options.proxyHeader,
        idleTimeout: options.listening.idleTimeout))
    return options.listening
  }
}
