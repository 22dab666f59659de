import ActorSockets

/// A server for reading files over TFTP: RFC 1350. Each file is sent from a separate endpoint.
struct TFTPServer {
  /// The contents of the files, by name.
  let files: [String: [UInt8]]
  /// How long to wait for an acknowledgement before sending again, and how often.
  var patience = Duration.seconds(1)
  var attempts = 5
  /// The settings of the endpoints that send files.
  var configuration = UDPEndpoint.Configuration()

  /// Serves until the endpoint is closed or the task is cancelled.
  func serve(_ endpoint: UDPEndpoint) async throws {
    try await withThrowingDiscardingTaskGroup { group in
      for try await request in endpoint.datagrams {
        // A client that vanishes does not stop the server.
        group.addTask { try? await answer(request) }
      }
      group.cancelAll()
    }
  }

  private func answer(_ request: Datagram) async throws {
    guard let client = request.remoteAddress else { return }
    // A separate port identifies the transfer: section 4.
    let here: Endpoint = .address(client.isIPv4 ? .ipv4(.any, port: 0) : .ipv6(.any, port: 0))
    let endpoint = try UDPEndpoint.bind(to: here, configuration: configuration)
    try await endpoint.connect(to: .address(client))
    let parts = request.bytes.dropFirst(2).split(separator: 0, omittingEmptySubsequences: false)
    guard request.bytes.starts(with: [0, 1]), parts.count >= 3 else {
      return try await refuse(endpoint, 4, "read only")
    }
    guard let file = files[String(decoding: parts[0], as: UTF8.self)] else {
      return try await refuse(endpoint, 1, "no such file")
    }
    // The last block is shorter than the others, and may be empty.
    for (index, start) in stride(from: 0, through: file.count, by: 512).enumerated() {
      let block = file[start..<min(start + 512, file.count)]
      try await send(block, number: UInt16(truncatingIfNeeded: index + 1), on: endpoint)
    }
  }

  private func refuse(_ endpoint: UDPEndpoint, _ code: UInt8, _ reason: String) async throws {
    try await endpoint.send([0, 5, 0, code] + reason.utf8 + [0])
  }

  /// Sends a block until it is acknowledged. Ignores acknowledgements of earlier blocks.
  private func send(_ block: ArraySlice<UInt8>, number: UInt16, on endpoint: UDPEndpoint) async throws {
    let digits = [UInt8(number >> 8), UInt8(number & 0xFF)]
    for _ in 1...attempts {
      try await endpoint.send([0, 3] + digits + block)
      let end = ContinuousClock.now + patience
      while let answer = try await endpoint.receive(until: end)?.bytes {
        if answer.starts(with: [0, 4] + digits) { return }
        if answer.starts(with: [0, 5]) { throw CancellationError() }
      }
    }
    throw SocketError(.timedOut, operation: "send", detail: "block \(number) was not acknowledged")
  }
}
