import ActorSockets
import ServerSupport

/// A UDP echo server on ActorSockets, written as a user would write it, in three ways.
@main
struct SwiftUDPEcho {
  static func main() async throws {
    let options = Options()
    let endpoint = try UDPEndpoint.bind(to: options.endpoint)
    for address in endpoint.localAddresses { printError("listening on \(address)") }

    let handler = Task(executorPreference: options.runsOnReactor ? endpoint.executor.reactor : nil) {
      switch options.mode {
      case .single: try await echoSingly(endpoint)
      case .isolated: try await echoIsolated(endpoint)
      case .batch: try await echoInBatches(endpoint)
      case .scoped: try await echoInPlace(endpoint)
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

/// What the command line asks for.
struct Options {
  enum Mode: String {
    case single, isolated, batch, scoped
  }

  /// Where the handler runs.
  let runsOnReactor: Bool
  let mode: Mode
  let endpoint: Endpoint

  init() {
    var arguments = Arguments(
      usage: "swift-udp-echo [--on reactor|pool] [--mode single|isolated|batch|scoped] [PORT]")
    runsOnReactor = arguments.take("--on", or: false) { ["reactor": true, "pool": false][$0] }
    mode = arguments.take("--mode", or: .single)
    endpoint = .host("127.0.0.1", port: arguments.port())
  }
}
