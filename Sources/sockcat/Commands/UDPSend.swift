import ActorSockets

/// `sockcat udp-send`.
struct UDPSend {
  let options: UDPSendOptions

  func run() async throws {
    let input = try StandardInput()
    do {
      let sender = try await DatagramSender(options)
      try await withThrowingTaskGroup(of: Void.self) { group in
        if options.wait != nil { group.addTask { try await sender.printAnswers() } }
        group.addTask {
          try await send(input, by: sender)
          if let wait = options.wait { try await Task.sleep(for: wait) } else { try await sender.hearErrors() }
          await sender.close()
        }
        defer { group.cancelAll() }
        // Not `waitForAll`, which would wait for the other one when the first fails.
        while try await group.next() != nil {}
      }
    } catch let error as SocketError where error.code == .permissionDenied && options.mayNeedBroadcast {
      throw Failure(.inputOutput, "\(error) (a broadcast address needs --broadcast)")
    }
  }

  private func send(_ input: StandardInput, by sender: DatagramSender) async throws {
    var pieces = DatagramPieces(isWhole: options.isWhole)
    while let bytes = try await input.read() {
      for piece in try pieces.add(bytes) { try await sender.send(piece) }
    }
    if let last = pieces.finish() { try await sender.send(last) }
  }
}

/// An endpoint and where it sends to.
private struct DatagramSender {
  private let endpoint: UDPEndpoint
  /// Where to, if the endpoint is not connected: the members of a group answer from addresses of their own.
  private let target: SocketAddress?
  private let hopLimit: UInt8?

  init(_ options: UDPSendOptions) async throws {
    var configuration = UDPEndpoint.Configuration()
    configuration.addressPreference = options.addressPreference
    configuration.broadcast = options.broadcast
    configuration.maximumReceiveSizeIPv4 = 65_535
    configuration.maximumReceiveSizeIPv6 = 65_535
    let source = options.source ?? (options.endpoint.isUnix ? .unix(path: "") : .port(0))
    endpoint = try UDPEndpoint.bind(to: source, configuration: configuration)
    hopLimit = options.hopLimit
    if let interface = options.interface { try await endpoint.setMulticastInterface(interface) }
    target = options.isToGroup || options.broadcast ? options.endpoint.numericAddress : nil
    if target == nil { try await endpoint.connect(to: options.endpoint) }
  }

  func send(_ bytes: [UInt8]) async throws {
    var datagram = Datagram(bytes, to: target)
    if let hopLimit { datagram.hopLimit = hopLimit }
    try await endpoint.send(datagram)
  }

  /// Throws what has been reported about datagrams that were sent: of a peer on this machine, that is known at once.
  func hearErrors() async throws {
    // The first call may find the report, which the next one throws. Answers that nobody wants come before it.
    var emptyTurns = 0
    for _ in 0..<100 where emptyTurns < 2 {
      do {
        _ = try await endpoint.receive(timeout: .zero)
      } catch let error as SocketError where error.code == .timedOut {
        emptyTurns += 1
      }
    }
  }

  /// Prints what comes until the endpoint is closed.
  func printAnswers() async throws {
    let output = try StandardOutput()
    do {
      while true {
        try await output.write(try await endpoint.receive(upTo: UDPListen.batch).flatMap(\.line))
      }
    } catch let error as SocketError where error.code == .closed {
    }
  }

  func close() async { await endpoint.close() }
}
