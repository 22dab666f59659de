import EpollReactor
import SocketSystem
import Synchronization

@testable import ActorSockets

/// A stream whose transport goes wrong at one chosen step: each call that moves bytes, or ends their sending, is a step.
actor ScriptedStream: StreamOwner, EventHandler {
  enum Fault: CaseIterable {
    /// One byte moves.
    case short
    /// Nothing moves now; the transport is ready again behind what waits in the reactor's queue.
    case blocked
    /// The connection breaks.
    case broken
    /// The peer has finished, and nothing more arrives.
    case ended
  }

  nonisolated let id = ConnectionIdentity.nextID()
  nonisolated let executor: ReactorExecutor
  nonisolated var label: String? {
    get { nil }
    set {}
  }
  nonisolated var localAddress: SocketAddress? { nil }
  nonisolated var remoteAddress: SocketAddress? { nil }
  nonisolated var isDraining: Bool { false }
  nonisolated var hasPeerFinished: Bool { false }
  nonisolated func peerHasFinished() {}
  func set<Value>(_ option: SocketOption<Value>, to value: Value) throws {}
  func get<Value>(_ option: SocketOption<Value>) throws -> Value { throw SocketError(.notASocket, operation: "get") }
  func withFileDescriptor<Value>(_ body: (Int32) throws -> sending Value) throws -> sending Value {
    throw SocketError(.notASocket, operation: "withFileDescriptor")
  }
  let _core: StreamCore
  let transport: ScriptedTransport
  private nonisolated let registration: Registration

  /// - Parameters:
  ///   - incoming: What the peer sends before it finishes.
  ///   - fault: What goes wrong.
  ///   - step: At which step; `nil` if nothing goes wrong.
  ///   - reactor: Where the stream's code runs.
  ///   - buffersWrites: Whether writes return before their bytes are sent.
  init(_ incoming: [UInt8], _ fault: Fault, at step: Int?, reactor: Reactor, buffersWrites: Bool = false) {
    executor = ReactorExecutor(ofSocketOn: reactor)
    registration = Registration(on: reactor)
    transport = ScriptedTransport(incoming, fault, at: step)
    var options = StreamCore.Options()
    options.buffersWrites = buffersWrites
    _core = StreamCore(transport: transport, registration: registration, options: options)
    submit { $0.core.setOwner($0) }
  }

  /// Opens the stream. Operations that were enqueued before begin.
  nonisolated func start() { submit { $0.begin() } }

  private func begin() {
    transport.wake = { [weak self] in self?.submit { $0.core.transportIsReady() } }
    transport.leave = { [registration] in registration.leave() }
    do { try registration.enter(self) } catch { return core.reactorShutDown() }
    core.open()
  }

  deinit { registration.reactor.submit { [registration] in registration.leave() } }

  func handle(_ readiness: Readiness) { core.transportIsReady() }
  func deadlineReached(_ tag: DeadlineTag) { core.deadlineReached(tag) }
  func reactorShutDown() { core.reactorShutDown() }

  var steps: Int { transport.steps }
  var sent: [UInt8] { transport.sent }
  var releases: Int { transport.releases }

  nonisolated var description: String { "ScriptedStream \(id)" }
}

final class ScriptedTransport: StreamTransport {
  var wake: (() -> Void)?
  var leave: (() -> Void)?
  private(set) var steps = 0
  private(set) var sent: [UInt8] = []
  private(set) var releases = 0
  private var incoming: ArraySlice<UInt8>
  private let fault: ScriptedStream.Fault
  private let faultyStep: Int?
  private var isBroken = false

  init(_ incoming: [UInt8], _ fault: ScriptedStream.Fault, at step: Int?) {
    self.incoming = incoming[...]
    self.fault = fault
    faultyStep = step
  }

  var isReadable: Bool { true }
  var isAtEnd: Bool { incoming.isEmpty }
  func forceAttempt() {}

  private static let reset = SystemError(call: "recv", errno: Errno.connectionReset)

  /// Begins a step.
  ///
  /// - Returns: The most bytes that may move, or what happens in their place.
  private func step() -> Transfer {
    if isBroken { return .failed(Self.reset) }
    defer { steps += 1 }
    guard steps == faultyStep else { return .bytes(7) }
    switch fault {
    case .short: return .bytes(1)
    case .blocked:
      wake?()
      return .wouldBlock
    case .broken:
      isBroken = true
      return .failed(Self.reset)
    case .ended:
      incoming = []
      return .bytes(7)
    }
  }

  func receive(into buffer: inout ByteQueue, wanted: Int) -> Transfer {
    guard case .bytes(let limit) = step() else { return isBroken ? .failed(Self.reset) : .wouldBlock }
    let bytes = Array(incoming.prefix(limit))
    incoming.removeFirst(bytes.count)
    buffer.append(bytes.span)
    return .bytes(bytes.count)
  }

  func receive(atMost limit: Int, restInto buffer: inout ByteQueue, showing body: (Span<UInt8>) -> Int) -> Transfer {
    var arrived = ByteQueue()
    let result = receive(into: &arrived, wanted: 1)
    if case .bytes(let count) = result, count > 0 {
      let used = arrived.withBytes(body)
      arrived.drop(used)
      arrived.withBytes { buffer.append($0) }
    }
    return result
  }

  func send(_ bytes: Span<UInt8>) -> Transfer {
    guard case .bytes(let limit) = step() else { return isBroken ? .failed(Self.reset) : .wouldBlock }
    let count = min(limit, bytes.count)
    sent += [UInt8](copying: bytes.extracting(first: count))
    return .bytes(count)
  }

  func send(gathering pieces: ArraySlice<[UInt8]>, skipping offset: Int) -> Transfer {
    send(Array(pieces.joined().dropFirst(offset)).span)
  }

  func finishWriting() -> SystemError? {
    if case .failed(let error) = step() { error } else { nil }
  }

  func close(_ done: @escaping @Sendable () -> Void) -> Bool {
    release()
    return true
  }

  func abort() {
    isBroken = true
    release()
  }

  private func release() {
    releases += 1
    leave?()
  }
}
