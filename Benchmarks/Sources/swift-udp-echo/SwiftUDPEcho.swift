import ActorSockets
import ServerSupport

/// A UDP server on ActorSockets, written as a user would write it, in several ways: it echoes, or takes and sends bursts.
@main
struct SwiftUDPEcho {
  static func main() async throws {
    let options = Options()
    var configuration = UDPEndpoint.Configuration()
    configuration.receiveOffload = [.streamOffload, .streamScoped].contains(options.mode)
    let endpoint = try UDPEndpoint.bind(to: options.endpoint, configuration: configuration)
    for address in endpoint.localAddresses { printError("listening on \(address)") }

    let handler = Task(executorPreference: options.runsOnReactor ? endpoint.executor.reactor : nil) {
      switch options.mode {
      case .single: try await echoSingly(endpoint)
      case .isolated: try await echoIsolated(endpoint)
      case .batch: try await echoInBatches(endpoint)
      case .scoped: try await echoInPlace(endpoint)
      case .stream, .streamOffload: try await stream(endpoint)
      case .streamScoped: try await streamInPlace(endpoint)
      }
    }
    try await handler.value
  }

  /// One datagram after the other.
  private static func echoSingly(_ endpoint: UDPEndpoint) async throws {
    for try await datagram in endpoint.datagrams {
      guard let sender = datagram.remoteAddress else { continue }
      try await endpoint.send(datagram.bytes, to: sender)
    }
  }

  /// One datagram after the other, in the endpoint's isolation: no call has to be taken there.
  private static func echoIsolated(_ endpoint: isolated UDPEndpoint) async throws {
    for try await datagram in endpoint.datagrams {
      guard let sender = datagram.remoteAddress else { continue }
      try await endpoint.send(datagram.bytes, to: sender)
    }
  }

  /// What there is, at once: a datagram that was received goes back to where it came from.
  private static func echoInBatches(_ endpoint: UDPEndpoint) async throws {
    while true {
      try await endpoint.send(endpoint.receive(upTo: 32))
    }
  }

  /// Without copies: the bytes leave from where they were received.
  private static func echoInPlace(_ endpoint: UDPEndpoint) async throws {
    while true {
      try await endpoint.withDatagrams { endpoint, bytes, header in
        try endpoint.sendNow(bytes, to: header.remoteAddress)
      }
    }
  }
}

// MARK: - Streams

/// The first byte of a datagram that the server must answer, and of a request for a burst: see load/udp_stream.c.
private let answerThis: UInt8 = 1, sendBurst: UInt8 = 2

/// Takes bursts, and sends those that are asked for.
private func stream(_ endpoint: UDPEndpoint) async throws {
  while true {
    for datagram in try await endpoint.receive(upTo: 32) {
      switch datagram.bytes.first {
      case answerThis: try await endpoint.send(datagram.reply([0]))
      case sendBurst: try await endpoint.send(burst(datagram.bytes.span, to: datagram.remoteAddress))
      default: break
      }
    }
  }
}

/// The same without copies of what arrives.
private func streamInPlace(_ endpoint: UDPEndpoint) async throws {
  while true {
    var request: [Datagram] = []
    try await endpoint.withDatagrams { bytes, header in
      switch bytes.isEmpty ? 0 : bytes[0] {
      case answerThis: request.append(Datagram([0], to: header.remoteAddress))
      case sendBurst: request += burst(bytes, to: header.remoteAddress)
      default: break
      }
    }
    if !request.isEmpty { try await endpoint.send(request) }
  }
}

private func burst(_ request: Span<UInt8>, to address: SocketAddress?) -> [Datagram] {
  guard request.count == 4 else { return [] }
  let size = Int(request[2]) << 8 | Int(request[3])
  return (0..<request[1]).map { number in
    var bytes = [UInt8](repeating: 0, count: size)
    bytes[0] = number
    return Datagram(bytes, to: address)
  }
}

/// What the command line asks for.
struct Options {
  enum Mode: String {
    case single, isolated, batch, scoped, stream
    case streamOffload = "stream-offload"
    case streamScoped = "stream-scoped"
  }

  /// Where the handler runs.
  let runsOnReactor: Bool
  let mode: Mode
  let endpoint: Endpoint

  init() {
    var arguments = Arguments(
      usage: """
        swift-udp-echo [--on reactor|pool] \
        [--mode single|isolated|batch|scoped|stream|stream-offload|stream-scoped] [PORT]
        """)
    runsOnReactor = arguments.take("--on", or: false) { ["reactor": true, "pool": false][$0] }
    mode = arguments.take("--mode", or: .single)
    endpoint = .host("127.0.0.1", port: arguments.port())
  }
}
