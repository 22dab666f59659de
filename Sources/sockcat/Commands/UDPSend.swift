import ActorSockets

struct UDPSend {
  let options: UDPSendOptions

  func run() async throws {
    let input = StandardInput()
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
        // `waitForAll` is not suitable: if the first task fails, it would wait for the other one.
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

private struct DatagramSender {
  private let endpoint: UDPEndpoint
  /// `nil` if the endpoint is connected. That of a group is not, because the members answer from their own addresses.
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

  /// Throws an error that was reported about a sent datagram. A peer on this machine reports immediately.
  func hearErrors() async throws {
    // One call may take the report from the kernel, and the next call throws it. Datagrams that arrived before are read
    // and dropped.
    var emptyReceives = 0
    for _ in 0..<100 where emptyReceives < 2 {
      do {
        _ = try await endpoint.receive(timeout: .zero)
      } catch SocketError.Code.timedOut {
        emptyReceives += 1
      }
    }
  }

  func printAnswers() async throws {
    let output = StandardOutput()
    do {
      while true {
        try await output.write(try await endpoint.receive(upTo: UDPListen.batch).flatMap(\.line))
      }
    } catch SocketError.Code.closed {
    }
  }

  func close() async { await endpoint.close() }
}
