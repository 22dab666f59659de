import ActorSockets

struct UDPListen {
  static let batch = 32
  /// How long echoes may wait for room at the end.
  static let echoTimeout = Duration.seconds(1)

  let options: UDPListenOptions

  func run() async throws {
    let signals = try StopSignals()
    let output = StandardOutput()
    let endpoint = try UDPEndpoint.bind(to: options.endpoint, configuration: configuration)
    for group in options.groups { try await endpoint.join(group, on: options.interface) }
    for address in endpoint.localAddresses { StandardError.write(line: "listening on \(address)") }
    let reporting = Task {
      if options.echoes { for await report in endpoint.errors { StandardError.write(line: "sockcat: \(report)") } }
    }
    defer { reporting.cancel() }
    let receiving = Task { try await receive(from: endpoint, output) }
    do {
      try await signals.during {
        await endpoint.close()
      } abort: {
        // The reader of the output may have stopped, which would block the task for ever.
        receiving.cancel()
      } _: {
        try await receiving.value
      }
    } catch {
      // Closing removes the file of a unix socket before the process exits.
      await endpoint.close()
      throw error
    }
    // The last echoes may wait for room. A unix peer that reads nothing makes no room.
    await endpoint.closeAfterPendingSends(within: Self.echoTimeout)
  }

  private var configuration: UDPEndpoint.Configuration {
    var configuration = UDPEndpoint.Configuration()
    configuration.reuseAddress = !options.groups.isEmpty
    configuration.maximumReceiveSizeIPv4 = 65_535
    configuration.maximumReceiveSizeIPv6 = 65_535
    // With this metadata, an answer comes from the address that the question was sent to.
    if options.echoes { configuration.metadata = .localAddress }
    return configuration
  }

  private func receive(from endpoint: UDPEndpoint, _ output: StandardOutput) async throws {
    var left = options.count ?? .max
    while left > 0 {
      let datagrams: [Datagram]
      do {
        datagrams = try await endpoint.receive(
          upTo: min(left, Self.batch), timeout: options.idleTimeout.map { .within($0) })
      } catch SocketError.Code.closed {
        return
      } catch SocketError.Code.timedOut {
        throw Failure(.timeout, "nothing arrived for \((options.idleTimeout ?? .zero).inSeconds)")
      }
      try await output.write(datagrams.flatMap(\.line))
      if options.echoes { for datagram in datagrams { try await echo(datagram, on: endpoint) } }
      left -= datagrams.count
    }
  }

  /// A failure is printed, and the program continues. If the peer is the reason, `errors` reports it.
  private func echo(_ datagram: Datagram, on endpoint: UDPEndpoint) async throws {
    // The sender is a unix socket without a name, so it cannot be answered.
    if datagram.remoteAddress == nil { return }
    do {
      try await endpoint.send(datagram.reply(datagram.bytes))
    } catch let error as SocketError {
      if error.code != .closed { StandardError.write(line: "sockcat: \(error)") }
    }
  }
}
