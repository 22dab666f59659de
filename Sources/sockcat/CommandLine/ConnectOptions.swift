import ActorSockets

struct ConnectOptions: Equatable {
  var endpoint: Endpoint
  var connecting = ConnectingOptions()
  var keepsSending = false
  var idleTimeout: Duration?
  var addressPreference = AddressPreference.any
  var source: Endpoint?
  var proxyHeader: ProxyHeader?
  var capture: String?
  var tls = TLSOptions(.client)
  var isVerbose = false
}

extension ConnectOptions: CommandOptions {
  static let text = CommandText(
    name: "connect", operands: ["ENDPOINT"],
    missingOperand: "say where to connect to, as in: sockcat connect example.com:80",
    summary: "joins standard input and output to a peer",
    text: """
      Sends standard input to the peer, and prints what the peer sends on standard output. The end of input closes \
      the sending direction only, unless --no-shutdown keeps it open. Ends when both directions have ended; if \
      standard input is a terminal, when the peer has finished.
      """)

  static let options =
    ConnectingOptions.options.map { $0.lifted(to: \ConnectOptions.connecting) } + own
    + TLSOptions.clientOptions.map { $0.lifted(to: \ConnectOptions.tls) } + [verbose]

  private static let own: [Option<ConnectOptions>] = [
    Option("--idle-timeout", .seconds, "gives up when no byte has moved for S seconds") {
      $0.idleTimeout = try $1.seconds()
    },
    Option(
      "--no-shutdown",
      """
      keeps the sending direction open when standard input has ended, until the peer has finished, for peers that \
      take the end of the input for a disconnect
      """
    ) { $0.keepsSending = true },
    Option("-4", "connects over IPv4 only") { $0.addressPreference = .ipv4Only },
    Option("-6", "connects over IPv6 only") { $0.addressPreference = .ipv6Only },
    Option(
      "--source", OptionText.Value(name: "SOURCE", kind: .interface),
      "connects from an address or an interface, with or without a port: 192.0.2.1, eth0, eth0:8082"
    ) { $0.source = try $1.source() },
    Option(
      "--send-proxy-protocol", OptionText.Value(name: "VERSION", kind: .choice(ProxyHeader.Version.words)),
      """
      begins the connection with a header of the PROXY protocol, v1 or v2, as a load balancer does. \
      v2:SOURCE,DESTINATION says who connected to whom, two addresses with ports; v2 says nothing (LOCAL, UNKNOWN)
      """
    ) { $0.proxyHeader = try $1.proxyHeader() },
    Option(
      "--capture", .file,
      """
      records the connection for Wireshark, with TLS in plain text, in a file that only you may read; replaces FILE
      """
    ) { $0.capture = $1.text },
  ]

  private static let verbose = Option<ConnectOptions>(
    "-v",
    """
    describes the connection on standard error: the peer's address, and with TLS the version, the cipher, ALPN, the \
    server's name, and whether it was verified
    """
  ) { $0.isVerbose = true }

  static func parse(_ words: inout Words) throws(Failure) -> ConnectOptions? {
    // A placeholder, replaced below. Port 0 cannot be connected to.
    var options = ConnectOptions(endpoint: .port(0))
    guard let operands = try options.read(&words) else { return nil }
    options.endpoint = try .parsed(operands[0])
    try options.connecting.check(connectingTo: options.endpoint)
    try options.tls.check(connectingTo: options.endpoint)
    return options
  }
}
