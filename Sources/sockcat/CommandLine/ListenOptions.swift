import ActorSockets

struct ListenOptions: Equatable {
  enum Mode: Equatable {
    case join, echo, discard, http, chat
    case forward(Forwarding)
  }

  enum Origin: Equatable {
    case bind(Endpoint)
    /// systemd passed the sockets. The name selects some of them; `nil` selects all.
    case systemd(name: String?)
  }

  var origin: Origin
  var mode = Mode.join
  var once = false
  var keepsSending = false
  var runsOnReactor = false
  var maximumConnections: Int?
  /// The most time to wait for the first connection.
  var timeout: Duration?
  var idleTimeout: Duration?
  /// The networks of the load balancers; `nil` if connections need no header of the PROXY protocol.
  var balancers: [IPNetwork]?
  var capture: String?
  var tls = TLSOptions(.server)
  var isVerbose = false

  init(origin: Origin) { self.origin = origin }

  init(endpoint: Endpoint) { origin = .bind(endpoint) }

  var servesOne: Bool { once || mode == .join }
}

extension ListenOptions: CommandOptions {
  static let text = CommandText(
    name: "listen", operands: ["ENDPOINT"],
    missingOperand: "say what to listen on, as in: sockcat listen :8080",
    summary: "serves connections",
    text: """
      Prints "listening on ADDRESS" on standard error. Without a service, joins one connection to standard input and \
      output. SIGTERM and SIGINT stop listening and let connections finish; a second one aborts them.
      """)

  static let options =
    services
    + [
      Option("--once", "serves one connection, then exits") { $0.once = true },
      Option(
        "--timeout", .seconds, "gives up when nobody has connected after S seconds (with --once or without a service)"
      ) { $0.timeout = try $1.seconds() },
      Option(
        "--no-shutdown",
        """
        keeps the sending direction open when standard input has ended, until the peer has finished, for peers that \
        take the end of the input for a disconnect
        """
      ) { $0.keepsSending = true },
    ] + shared
    + [
      Option(
        "--capture", .file,
        "records the connections for Wireshark, with TLS in plain text, in a file that only you may read; replaces FILE"
      ) { $0.capture = $1.text }
    ] + TLSOptions.serverOptions.map { $0.lifted(to: \ListenOptions.tls) }

  private static let services: [Option<ListenOptions>] = [
    Option("--echo", "sends everything back") { try $0.choose(.echo) },
    Option("--discard", "reads everything and sends nothing") { try $0.choose(.discard) },
    Option("--http", "answers every GET and HEAD with a short page") { try $0.choose(.http) },
    Option("--chat", "sends every line to all other connections") { try $0.choose(.chat) },
  ]

  /// The options of `sockcat proxy`, too.
  static let shared: [Option<ListenOptions>] = [
    Option(
      "--on", .choice(["pool", "reactor"]),
      "runs services on Swift's threads (pool, the default) or on the one thread of the sockets (reactor)"
    ) { $0.runsOnReactor = try $1.isReactor() },
    Option(
      "--max-connections", .number, "serves at most N connections of a socket at a time; others wait"
    ) { $0.maximumConnections = try $1.count() },
    Option("--idle-timeout", .seconds, "ends a connection on which no byte has moved for S seconds") {
      $0.idleTimeout = try $1.seconds()
    },
    Option(
      "--require-proxy-protocol", .named("NETWORKS"),
      """
      serves only connections that a load balancer in one of these networks forwards, as in 10.0.0.0/8,192.0.2.7, \
      and that begin with a header of the PROXY protocol, version 1 or 2, which has the client's address
      """
    ) { $0.balancers = try $1.networks() },
    Option(
      "-v",
      """
      describes each connection on standard error: the client's address, and with TLS the result of the handshake, \
      or why it failed
      """
    ) { $0.isVerbose = true },
  ]

  private mutating func choose(_ mode: Mode) throws(Failure) {
    if self.mode != .join { throw .usage("--echo, --discard, --http and --chat exclude each other") }
    self.mode = mode
  }

  static func parse(_ words: inout Words) throws(Failure) -> ListenOptions? {
    // A placeholder, replaced below when the endpoint is known.
    var options = ListenOptions(endpoint: .port(0))
    guard let operands = try options.read(&words) else { return nil }
    options.origin = try origin(operands[0])
    try options.check()
    return options
  }

  private static func origin(_ text: String) throws(Failure) -> Origin {
    let scheme = "systemd:".utf8
    guard text.utf8.starts(with: scheme) else { return .bind(try .parsed(text)) }
    let name = String(decoding: text.utf8.dropFirst(scheme.count), as: UTF8.self)
    return .systemd(name: name.isEmpty ? nil : name)
  }

  private func check() throws(Failure) {
    if servesOne, maximumConnections != nil { throw .usage("--max-connections is for more than one connection") }
    if mode != .join, keepsSending {
      throw .usage("--no-shutdown is for standard input, which a service does not send")
    }
    if !servesOne, timeout != nil { throw .usage("--timeout is for the first connection: it needs --once") }
    try tls.check()
  }
}

extension Words.Argument {
  fileprivate func isReactor() throws(Failure) -> Bool {
    switch text {
    case "pool": return false
    case "reactor": return true
    default: throw .usage("\(option) takes pool or reactor, not \(text.debugDescription)")
    }
  }
}
