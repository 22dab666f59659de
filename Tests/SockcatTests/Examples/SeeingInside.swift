import ActorSockets
import Synchronization

// The code of the article about what a program can see of its connections.

func describe(_ connection: TCPConnection) async throws {
  for operation in await connection.pendingOperations {
    print(operation)  // read exactly 10 bytes: 4 of 10 bytes done, for 2.5 seconds
  }
  if let tcp = await connection.metrics.tcp {
    print(tcp.roundTripTime, tcp.totalRetransmissions, tcp.deliveryRate ?? 0)
  }
}

func record(_ configuration: inout TCPConnection.Configuration) throws {
  let capture = try PacketCapture(path: "trouble.pcapng")
  configuration.capture = capture
}

func prepare(_ configuration: inout TCPConnection.Configuration) {
  configuration.prepare = { socket in
    try socket.set(.typeOfService, to: .expeditedForwarding)
    try socket.set(.bindToDevice, to: "eth1")
  }
}

final class OpenConnections: ReactorObserver {
  private let open = Atomic(0)
  private let received = Atomic(0)

  func connected(_ connection: ObservedConnection) { open.add(1, ordering: .relaxed) }
  func accepted(_ connection: ObservedConnection) { open.add(1, ordering: .relaxed) }

  func closed(_ connection: ObservedConnection, _ report: CloseReport) {
    open.subtract(1, ordering: .relaxed)
    received.add(Int(clamping: report.bytesReceived), ordering: .relaxed)
  }

  func handlerFailed(_ connection: ObservedConnection, _ error: any Error) { print("\(connection): \(error)") }
  func lagged(_ lag: Duration) { print("the reactor was held up for \(lag)") }

  var report: String { "\(open.load(ordering: .relaxed)) open, \(received.load(ordering: .relaxed)) bytes received" }
}

func observe() {
  Reactor.shared.observer = OpenConnections()
}

func inspect() {
  Task { try await Inspection.serve(on: .unix(path: "/run/app/inspect.sock")) }
}
