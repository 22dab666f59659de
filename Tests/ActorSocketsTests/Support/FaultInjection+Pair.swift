import ActorSockets
import ActorSocketsTesting
import TestSupport

extension FaultInjection {
  static let shortTransfers: [CallFault] = [
    .shortReads(probability: 0.5), .shortWrites(probability: 0.5), .spuriousReadiness(probability: 0.3),
  ]

  /// A connected pair on the reactor with faults, and its listener.
  func pair(
    _ kind: StreamSocket = .ipv4, waitingDescriptors: Int = 0
  ) async throws -> (TCPConnection, TCPConnection, TCPListener) {
    var configuration = TCPListener.Configuration()
    configuration.connection.pendingDescriptorLimit = waitingDescriptors
    let listener = try TCPListener.bind(
      to: .address(kind.freeAddress()), configuration: configuration, reactor: reactor)
    let client = try await TCPConnection.connect(to: .address(listener.localAddresses[0]), reactor: reactor)
    return (client, try await listener.accept(), listener)
  }
}

/// Runs a body with a reactor whose calls have faults, and fails if it does not return in time.
nonisolated(nonsending) func injecting(
  _ what: String, _ faults: [CallFault] = [], seed: UInt64 = 0, file: String = #fileID, line: Int = #line,
  _ body: nonisolated(nonsending) (FaultInjection) async throws -> Void
) async throws {
  try await within(what, file: file, line: line) { try await body(try FaultInjection(faults, seed: seed)) }
}
