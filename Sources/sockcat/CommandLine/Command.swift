enum Command: Equatable {
  case help
  case version
  case manPage
  case completions(Shell)
  case demo
  case connect(ConnectOptions)
  case listen(ListenOptions)
  case udpListen(UDPListenOptions)
  case udpSend(UDPSendOptions)
  case inspect(InspectOptions)
}

extension Command {
  init(parsing words: [String]) throws(Failure) {
    var words = Words(words)
    guard let first = words.next() else { throw .usage("say what to do: \(Self.names)") }
    switch first {
    case .option("--help", nil), .option("-h", nil), .operand("help"): self = .help
    case .option("--version", nil): self = .version
    // These two are for `make install`, and not in the help.
    case .option("--man", nil): self = .manPage
    case .option("--completions", let shell):
      let text = try words.value(of: "--completions", shell)
      self = .completions(try Words.Argument(option: "--completions", text: text).choice())
    case .operand("demo"): self = try Self.demo(&words)
    case .operand("connect"): self = try ConnectOptions.parse(&words).map(Self.connect) ?? .help
    case .operand("listen"): self = try ListenOptions.parse(&words).map(Self.listen) ?? .help
    case .operand("proxy"): self = try ProxyOptions.parse(&words).map(Self.listen) ?? .help
    case .operand("udp-listen"): self = try UDPListenOptions.parse(&words).map(Self.udpListen) ?? .help
    case .operand("udp-send"): self = try UDPSendOptions.parse(&words).map(Self.udpSend) ?? .help
    case .operand("inspect"): self = try InspectOptions.parse(&words).map(Self.inspect) ?? .help
    case .operand(let text): throw .usage("\(text.debugDescription) is not a command; use \(Self.names)")
    case .option: throw .usage("\(first) is no option here")
    }
  }

  private static let names = (Manual.commands.map(\.text.name) + ["demo"]).inWords

  private static func demo(_ words: inout Words) throws(Failure) -> Command {
    guard let word = words.next() else { return .demo }
    if word.asksForHelp { return .help }
    throw .usage("demo takes no arguments, not \(word)")
  }
}
