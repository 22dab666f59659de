import ActorSockets

/// The command that the command line asks for.
enum Command: Equatable {
  case help
  case version
  case demo
  case connect(ConnectOptions)
  case listen(ListenOptions)
  case udpListen(UDPListenOptions)
  case udpSend(UDPSendOptions)
}

/// The options of `sockcat connect`.
struct ConnectOptions: Equatable {
  var endpoint: Endpoint
  /// The most time that connecting may take.
  var timeout: Duration?
  /// The most time without a byte in either direction.
  var idleTimeout: Duration?
  var addressPreference = AddressPreference.any
  /// The address or interface to connect from.
  var source: Endpoint?
  /// The file that records the connection.
  var capture: String?
  var tls = TLSOptions(.client)
}

/// The options of `sockcat listen`.
struct ListenOptions: Equatable {
  /// The service for each connection.
  enum Mode: Equatable {
    case join, echo, discard, http, chat
    /// The service of `sockcat proxy`.
    case forward(Forwarding)
  }

  /// The origin of the listening sockets.
  enum Origin: Equatable {
    case bind(Endpoint)
    /// systemd passed the sockets. The name selects some of them; `nil` selects all.
    case systemd(name: String?)
  }

  var origin: Origin
  var mode = Mode.join
  /// Whether `--once` was given.
  var once = false
  var place = TCPListener.HandlerExecutor.pool
  /// The most connections at a time.
  var maximumConnections: Int?
  /// The most time to wait for the first connection.
  var timeout: Duration?
  /// The most time without a byte in either direction.
  var idleTimeout: Duration?
  /// The file that records the connections.
  var capture: String?
  var tls = TLSOptions(.server)

  init(origin: Origin) { self.origin = origin }

  init(endpoint: Endpoint) { origin = .bind(endpoint) }

  /// Whether exactly one connection is served.
  var servesOne: Bool { once || mode == .join }
}

extension Command {
  /// Parses a command line.
  ///
  /// - Parameter words: The words that follow the program's name.
  /// - Throws: `Failure` with the status `usage`, which says what is wrong.
  init(parsing words: [String]) throws(Failure) {
    var words = Words(words)
    guard let first = words.next() else { throw .usage("say what to do: \(Self.names)") }
    switch first {
    case .option("--help", nil), .option("-h", nil), .operand("help"): self = .help
    case .option("--version", nil): self = .version
    case .operand("demo"): self = try Self.demo(&words)
    case .operand("connect"): self = try Self.connect(&words)
    case .operand("listen"): self = try Self.listen(&words)
    case .operand("proxy"): self = try Self.proxy(&words)
    case .operand("udp-listen"): self = try Self.udpListen(&words)
    case .operand("udp-send"): self = try Self.udpSend(&words)
    case .operand(let text): throw .usage("\(text.debugDescription) is not a command; use \(Self.names)")
    case .option: throw .usage("\(first) is no option here")
    }
  }

  private static let names = "connect, listen, proxy, udp-listen, udp-send or demo"

  private static func demo(_ words: inout Words) throws(Failure) -> Command {
    guard let word = words.next() else { return .demo }
    if word.asksForHelp { return .help }
    throw .usage("demo takes no arguments, not \(word)")
  }

  private static func connect(_ words: inout Words) throws(Failure) -> Command {
    var endpoint: Endpoint?
    // A placeholder, replaced below. Port 0 cannot be connected to.
    var options = ConnectOptions(endpoint: .port(0))
    while let word = words.next() {
      if word.asksForHelp { return .help }
      if try options.tls.take(word, &words) { continue }
      switch word {
      case .operand(let text): endpoint = try Self.endpoint(text, after: endpoint)
      case .option("--timeout", let value): options.timeout = try words.seconds(of: "--timeout", value)
      case .option("--idle-timeout", let value): options.idleTimeout = try words.seconds(of: "--idle-timeout", value)
      case .option("-4", nil): options.addressPreference = .ipv4Only
      case .option("-6", nil): options.addressPreference = .ipv6Only
      case .option("--capture", let value): options.capture = try words.value(of: "--capture", value)
      case .option("--source", let value): options.source = try source(try words.value(of: "--source", value))
      case .option: throw .usage("\(word) is no option of connect")
      }
    }
    guard let endpoint else { throw .usage("say where to connect to, as in: sockcat connect example.com:80") }
    options.endpoint = endpoint
    try options.tls.check(connectingTo: endpoint)
    return .connect(options)
  }

  /// Parses an address or an interface, with or without a port.
  static func source(_ text: String) throws(Failure) -> Endpoint {
    if IPv6Address(text) != nil || !text.contains(":") { return .host(text, port: 0) }
    return try endpoint(text, after: nil)
  }

  private static func listen(_ words: inout Words) throws(Failure) -> Command {
    var origin: ListenOptions.Origin?
    // A placeholder, replaced below when the endpoint is known.
    var options = ListenOptions(endpoint: .port(0))
    var chosen: String?
    while let word = words.next() {
      if word.asksForHelp { return .help }
      if try options.tls.take(word, &words) { continue }
      switch word {
      case .operand(let text): origin = try Self.origin(text, after: origin)
      case .option("--once", nil): options.once = true
      case .option("--capture", let value): options.capture = try words.value(of: "--capture", value)
      case .option("--on", let value): options.place = try place(try words.value(of: "--on", value))
      case .option("--max-connections", let value):
        options.maximumConnections = try words.count(of: "--max-connections", value)
      case .option("--timeout", let value): options.timeout = try words.seconds(of: "--timeout", value)
      case .option("--idle-timeout", let value): options.idleTimeout = try words.seconds(of: "--idle-timeout", value)
      case .option(let name, nil):
        guard let mode = service(name) else { throw .usage("\(word) is no option of listen") }
        if let chosen { throw .usage("\(chosen) and \(name) exclude each other") }
        chosen = name
        options.mode = mode
      case .option: throw .usage("\(word) is no option of listen")
      }
    }
    guard let origin else { throw .usage("say what to listen on, as in: sockcat listen :8080") }
    options.origin = origin
    try options.check()
    return .listen(options)
  }

  private static func service(_ option: String) -> ListenOptions.Mode? {
    switch option {
    case "--echo": .echo
    case "--discard": .discard
    case "--http": .http
    case "--chat": .chat
    default: nil
    }
  }

  private static func proxy(_ words: inout Words) throws(Failure) -> Command {
    var endpoints: [Endpoint] = []
    var options = ListenOptions(endpoint: .port(0))
    var timeout: Duration?
    while let word = words.next() {
      if word.asksForHelp { return .help }
      switch word {
      case .operand(let text):
        if endpoints.count == 2 {
          throw .usage("only two endpoints are allowed: \(text.debugDescription) is one too many")
        }
        endpoints.append(try endpoint(text, after: nil))
      case .option("--on", let value): options.place = try place(try words.value(of: "--on", value))
      case .option("--max-connections", let value):
        options.maximumConnections = try words.count(of: "--max-connections", value)
      case .option("--timeout", let value): timeout = try words.seconds(of: "--timeout", value)
      case .option("--idle-timeout", let value): options.idleTimeout = try words.seconds(of: "--idle-timeout", value)
      case .option: throw .usage("\(word) is no option of proxy")
      }
    }
    guard endpoints.count == 2 else {
      throw .usage("say where to listen and where to connect to, as in: sockcat proxy :8080 example.com:80")
    }
    options.origin = .bind(endpoints[0])
    options.mode = .forward(Forwarding(target: endpoints[1], timeout: timeout, idleTimeout: options.idleTimeout))
    return .listen(options)
  }

  static func endpoint(_ text: String, after first: Endpoint?) throws(Failure) -> Endpoint {
    if first != nil { throw .usage("only one endpoint is allowed: \(text.debugDescription) is one too many") }
    do {
      return try Endpoint(parsing: text)
    } catch {
      throw .usage(error.description)
    }
  }

  private static func origin(_ text: String, after first: ListenOptions.Origin?) throws(Failure) -> ListenOptions.Origin
  {
    if text.hasPrefix("systemd:") {
      if first != nil { throw .usage("only one endpoint is allowed: \(text.debugDescription) is one too many") }
      let name = String(text.dropFirst("systemd:".count))
      return .systemd(name: name.isEmpty ? nil : name)
    }
    return .bind(try endpoint(text, after: first.map { _ in .port(0) }))
  }

  private static func place(_ text: String) throws(Failure) -> TCPListener.HandlerExecutor {
    switch text {
    case "pool": return .pool
    case "reactor": return .reactor
    default: throw .usage("--on takes pool or reactor, not \(text.debugDescription)")
    }
  }
}

extension ListenOptions {
  /// Throws if two options contradict each other.
  fileprivate func check() throws(Failure) {
    if servesOne, maximumConnections != nil { throw .usage("--max-connections is for more than one connection") }
    if !servesOne, timeout != nil { throw .usage("--timeout is for the first connection: it needs --once") }
    try tls.check()
  }
}
