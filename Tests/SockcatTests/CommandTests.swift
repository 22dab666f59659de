import ActorSockets
import TestSupport
import Testing

@testable import sockcat

@Suite(.tags(.pure)) struct CommandTests {
  @Test func `A plain connect has no time limits`() throws {
    let command = try Command(parsing: ["connect", "example.com:80"])
    #expect(command == .connect(ConnectOptions(endpoint: .host("example.com", port: 80))))
  }

  @Test func `Options may stand anywhere and carry their value in either form`() throws {
    var options = ConnectOptions(endpoint: .host("a", port: 1), idleTimeout: .seconds(10))
    options.connecting.timeout = .seconds(0.5)
    let expected = Command.connect(options)
    #expect(try Command(parsing: ["connect", "--timeout", "0.5", "a:1", "--idle-timeout=10"]) == expected)
    #expect(try Command(parsing: ["connect", "--timeout=0.5", "--idle-timeout", "10", "--", "a:1"]) == expected)
  }

  @Test func `The end of input ends the sending direction, unless it is to stay open`() throws {
    var connecting = ConnectOptions(endpoint: .host("a", port: 1))
    var listening = ListenOptions(endpoint: .port(0))
    #expect(!connecting.keepsSending && !listening.keepsSending)
    (connecting.keepsSending, listening.keepsSending) = (true, true)
    #expect(try Command(parsing: ["connect", "a:1", "--no-shutdown"]) == .connect(connecting))
    #expect(try Command(parsing: ["listen", ":0", "--no-shutdown"]) == .listen(listening))
  }

  @Test(arguments: [[0x61, 0xFF], [0xC3], [0xED, 0xA0, 0x80]] as [[UInt8]])
  func `A word that is not UTF-8 is refused, and is not another word`(bytes: [UInt8]) throws {
    let failure = #expect(throws: Failure.self) { try Arguments.word(bytes) }
    #expect(failure?.status == .usage && failure?.message.contains("is not UTF-8") == true)
    #expect(try Arguments.word(Array("caf\u{E9}\u{FFFD}".utf8)) == "caf\u{E9}\u{FFFD}")
  }

  @Test func `Connecting may be held to a family and a source`() throws {
    var options = ConnectOptions(endpoint: .host("a", port: 1))
    options.addressPreference = .ipv6Only
    for (text, source) in [
      ("eth0", Endpoint.host("eth0", port: 0)), ("192.0.2.1", .host("192.0.2.1", port: 0)),
      ("2001:db8::1", .host("2001:db8::1", port: 0)), ("eth0:8082", .host("eth0", port: 8082)),
    ] {
      options.source = source
      #expect(try Command(parsing: ["connect", "-6", "a:1", "--source", text]) == .connect(options))
    }
  }

  @Test func `Listening joins one connection unless a service is chosen`() throws {
    var options = ListenOptions(endpoint: .port(0))
    #expect(options.servesOne)
    #expect(try Command(parsing: ["listen", ":0"]) == .listen(options))
    options.mode = .http
    options.runsOnReactor = true
    options.maximumConnections = 7
    #expect(!options.servesOne)
    let words = ["listen", ":0", "--http", "--on", "reactor", "--max-connections", "7"]
    #expect(try Command(parsing: words) == .listen(options))
  }

  @Test func `Sockets can come from systemd, all or those of a name`() throws {
    #expect(try Command(parsing: ["listen", "systemd:"]) == .listen(ListenOptions(origin: .systemd(name: nil))))
    #expect(try Command(parsing: ["listen", "systemd:a b"]) == .listen(ListenOptions(origin: .systemd(name: "a b"))))
    #expect(throws: Failure.self) { try Command(parsing: ["connect", "systemd:"]) }
  }

  @Test func `A proxy has two endpoints`() throws {
    var options = ListenOptions(endpoint: .unix(path: "@front"))
    options.mode = .forward(Forwarding(target: .host("a", port: 1)))
    #expect(try Command(parsing: ["proxy", "unix:@front", "a:1"]) == .listen(options))
    #expect(!options.servesOne)
    options.runsOnReactor = true
    options.maximumConnections = 3
    options.idleTimeout = .seconds(5)
    let connecting = ConnectingOptions(timeout: .seconds(2), tries: 3)
    options.mode = .forward(
      Forwarding(
        target: .host("a", port: 1), connecting: connecting, proxyHeader: .v1, idleTimeout: .seconds(5)))
    let words = ["--on", "reactor", "--max-connections=3", "--timeout", "2", "--idle-timeout", "5", "--retry=3"]
    #expect(
      try Command(parsing: ["proxy", "unix:@front"] + words + ["--send-proxy-protocol", "v1", "a:1"])
        == .listen(options))
  }

  @Test(arguments: [
    ["--help"], ["-h"], ["help"], ["connect", "--help"], ["listen", ":0", "-h"], ["demo", "--help"], ["proxy", "-h"],
    ["udp-listen", "-h"], ["udp-send", "a:1", "--help"],
  ])
  func `Help can be asked for anywhere`(words: [String]) throws {
    #expect(try Command(parsing: words) == .help)
  }

  @Test(arguments: [
    [], ["sing"], ["--loud"], ["connect"], ["listen"], ["demo", "more"], ["connect", "a:1", "b:2"], ["connect", "a"],
    ["connect", "a:99999"], ["connect", "::1:80"], ["connect", "a:1", "--echo"], ["connect", "a:1", "--timeout"],
    ["connect", "a:1", "--timeout", "soon"], ["connect", "a:1", "--timeout", "0"], ["connect", "a:1", "--timeout=-1"],
    ["connect", "a:1", "--timeout", "nan"], ["connect", "a:1", "--timeout", "1e99"], ["listen", ":0", "--on", "mars"],
    ["listen", ":0", "--echo", "--http"], ["listen", ":0", "--join"], ["listen", ":0", "--once=1"],
    ["listen", ":0", "--echo", "--max-connections", "0"], ["listen", ":0", "--once", "--max-connections", "2"],
    ["listen", ":0", "--echo", "--timeout", "1"], ["listen", "unix:"], ["connect", "a:1", "-4=1"],
    ["connect", "a:1", "--source", "a:b:c"], ["connect", "a\nb"], ["listen", ":0", "systemd:"],
    ["listen", "systemd:", ":0"], ["listen", "systemd:", "systemd:a"],
    ["proxy"], ["proxy", ":0"], ["proxy", ":0", "a:1", "b:2"], ["proxy", ":0", "a:1", "--once"], ["proxy", ":0", "a"],
    ["listen", ":0", "--echo", "--no-shutdown"], ["proxy", ":0", "a:1", "--no-shutdown"],
    ["connect", "a:1", "--no-shutdown=1"], ["listen", ":0", "--forward"],
    ["proxy", ":0", "a:1", "--max-connections", "0"],
  ])
  func `Nonsense is refused with one line`(words: [String]) {
    let failure = #expect(throws: Failure.self) { try Command(parsing: words) }
    #expect(failure?.status == .usage)
    #expect(failure?.message.contains("\n") == false)
  }

  @Test func `The name of a passed socket may begin with an accent`() throws {
    let options = ListenOptions(origin: .systemd(name: "\u{301}a"))
    #expect(try Command(parsing: ["listen", "systemd:\u{301}a"]) == .listen(options))
  }
}
