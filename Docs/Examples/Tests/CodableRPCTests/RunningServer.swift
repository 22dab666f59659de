import ActorSockets
import ExampleSupport
import Foundation

@testable import CodableRPC

extension Tool {
  static let codableRPC = Tool(example: "CodableRPC")
}

/// The methods that only tests have.
extension RPCMethod where Argument == String, Value == String {
  static var echo: Self { Self("echo") }
  /// Waits until the server's gate is open.
  static var gate: Self { Self("gate") }
  static var refuse: Self { Self("refuse") }
  static var fail: Self { Self("fail") }
  static var hold: Self { Self("hold") }
  static var release: Self { Self("release") }
  static var forever: Self { Self("forever") }
  static var die: Self { Self("die") }
  static var pause: Self { Self("pause", isRepeatable: true) }
}

extension RPCMethod where Argument == String, Value == Int {
  static var deadline: Self { Self("deadline") }
}

/// The calls of the method `gate`. They wait until the gate is open. Tests wait for a number of them.
actor GatedCalls {
  private(set) var running = 0
  private(set) var most = 0
  private(set) var cancelled = 0
  private var isOpen = false
  private var gates: [AsyncStream<Void>.Continuation] = []
  private var waiters: [CheckedContinuation<Void, Never>] = []

  /// Waits until the gate is open, or the task is cancelled.
  func call() async throws {
    running += 1
    most = max(most, running)
    wake()
    // Cancellation ends a stream for all who wait for it. So each call has its own.
    let (gate, continuation) = AsyncStream.makeStream(of: Void.self)
    if isOpen { continuation.finish() } else { gates.append(continuation) }
    for await _ in gate {}
    running -= 1
    if Task.isCancelled { cancelled += 1 }
    wake()
    try Task.checkCancellation()
  }

  func open() {
    isOpen = true
    for gate in gates { gate.finish() }
  }

  func wait(running: Int) async {
    while self.running != running { await withCheckedContinuation { waiters.append($0) } }
  }

  func wait(cancelled: Int) async {
    while self.cancelled != cancelled { await withCheckedContinuation { waiters.append($0) } }
  }

  private func wake() {
    for waiter in waiters { waiter.resume() }
    waiters = []
  }
}

/// A server in this process.
struct RunningServer: Sendable {
  struct Broken: Error {}

  let listener: TCPListener
  let address: SocketAddress
  let gated: GatedCalls
  /// The errors of handlers, as they happen.
  let failures: AsyncStream<any Error>
  private let serving: Task<ServeReport, any Error>

  init(on endpoint: Endpoint = .host("127.0.0.1", port: 0), _ change: (inout RPCLimits) -> Void = { _ in }) throws {
    let gated = GatedCalls()
    var server = RPCServer()
    change(&server.limits)
    Mathematics.add(to: &server)
    server.on(.echo) { $0 }
    server.on(.gate) { text in
      try await gated.call()
      return text
    }
    server.on(.refuse) { _ in throw RPCFailure(.init("noMoney"), "you have 3 €") }
    server.on(.fail) { _ in throw Broken() }
    self.gated = gated
    listener = try TCPListener.bind(to: endpoint)
    address = listener.localAddresses[0]
    let (failures, failed) = AsyncStream.makeStream(of: (any Error).self)
    self.failures = failures
    serving = Task { [server, listener] in
      try await listener.serve(
        .init(drain: .within(.seconds(30), idleReads: .endAll), onFailure: { failed.yield($0.error) })
      ) { try await server.serve($0) }
    }
  }

  func client(_ change: (inout RPCClient.Configuration) -> Void = { _ in }) -> RPCClient { .patient(address, change) }

  func stop() async throws -> ServeReport {
    await listener.drain(within: .seconds(30))
    return try await serving.value
  }
}

extension RPCClient {
  /// A client that tries often to connect.
  static func patient(_ address: SocketAddress, _ change: (inout Configuration) -> Void = { _ in }) -> RPCClient {
    var configuration = Configuration()
    configuration.retry.maximumTries = 1000
    configuration.retry.maximumDelay = .milliseconds(50)
    change(&configuration)
    return RPCClient(.address(address), configuration: configuration)
  }
}

/// One side of a conversation, without the code under test around it.
struct RawPeer: Sendable {
  let connection: TCPConnection

  /// Connects to a server, and says hello.
  static func client(of address: SocketAddress, version: Int? = 1, receiveBuffer: Int32? = nil) async throws -> RawPeer
  {
    var configuration = TCPConnection.Configuration()
    if let receiveBuffer { configuration.prepare = { try $0.set(.receiveBufferSize, to: Int(receiveBuffer)) } }
    let peer = RawPeer(
      connection: try await TCPConnection.connect(to: .address(address), configuration: configuration))
    if let version {
      try await peer.send(#"{"head":{"hello":{"version":\#(version),"calls":9,"length":1048576}},"content":null}"#)
      _ = try await peer.receive()
    }
    return peer
  }

  /// Accepts a client, and says hello.
  static func server(of listener: TCPListener, version: Int = 1) async throws -> RawPeer {
    let peer = RawPeer(connection: try await listener.accept())
    _ = try await peer.receive()
    try await peer.send(#"{"head":{"hello":{"version":\#(version),"calls":9,"length":1000}},"content":null}"#)
    return peer
  }

  func send(_ json: String) async throws {
    try await connection.write(message: Array(json.utf8), lengthPrefix: .uint32(.big))
  }

  func sendCall(_ id: Int, _ method: String, _ content: String) async throws {
    try await send(
      #"{"head":{"call":{"id":\#(id),"method":"\#(method)","milliseconds":20000}},"content":"\#(content)"}"#)
  }

  func receive() async throws -> String? {
    let request: ReadRequest<[UInt8]?> = .message(lengthPrefix: .uint32(.big), maximumLength: 2 << 20)
    return try await connection.read(request).map { String(decoding: $0, as: UTF8.self) }
  }

  /// Reads until the other side has ended the connection, in whichever way.
  func waitForEnd() async throws {
    do {
      while try await connection.read() != nil {}
    } catch SocketError.Code.connectionReset {}
    await connection.close()
  }
}
