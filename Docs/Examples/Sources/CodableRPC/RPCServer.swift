import ActorSockets
import ByteText
import Foundation
import Synchronization

/// Serves methods, on connections of every kind. The calls of a connection run at the same time, and are answered in any order.
struct RPCServer: Sendable {
  var limits = RPCLimits()
  private var methods: [ByteText: @Sendable (RPCPacket) async throws -> [UInt8]] = [:]

  /// Adds a method. `RPCFailure` is passed on to the client; of other errors it learns nothing.
  ///
  /// The body runs until it returns, also after its deadline and after its client has gone. So a long body should react to cancellation.
  mutating func on<Argument, Value>(
    _ method: RPCMethod<Argument, Value>, _ body: @escaping @Sendable (Argument) async throws -> Value
  ) {
    methods[ByteText(method.name)] = { packet in
      let argument: Argument
      do {
        argument = try packet.content(as: Argument.self)
      } catch {
        throw RPCFailure(.invalidArgument, "\(Argument.self) is expected: \("\(error)".prefix(300))")
      }
      return Array(try JSONEncoder().encode(await body(argument)))
    }
  }

  /// Serves one connection.
  ///
  /// When the server stops, the read finds the end of the stream. Then the calls that run are finished, and the client is told which these
  /// are, so that it sends the others to another server. When the client ends the stream, its calls are cancelled.
  func serve(_ connection: some ByteStream) async throws {
    guard let first = try await RPCPacket.read(from: connection, limits, idle: .after(limits.hello)) else { return }
    guard case .hello(let version, _, let length) = first.head else { throw RPCPacket.violation("hello must be first") }
    try await connection.write(message: limits.greeting, timeout: .after(limits.write))
    // The client has the hello and knows why the connection ends.
    if version != RPCHead.version { return }

    let running = RunningCalls(limit: limits.calls)
    try await withThrowingDiscardingTaskGroup { group in
      do {
        while !connection.isDraining, let packet = try await RPCPacket.read(from: connection, limits) {
          guard let call = try await begin(packet, on: connection, running) else { continue }
          group.addTask {
            let answer = await answer(call, atMost: length)
            // The call counts until its answer is sent. So a client that does not read cannot begin more.
            try await send(answer, to: connection)
            running.end(call.id)
          }
        }
        if connection.isDraining { try await send(RPCMessage(.goodbye(last: running.last)), to: connection) }
      } catch SocketError.Code.closed {
        // An answer could not be sent. The group throws the reason.
      }
      if !connection.isDraining { group.cancelAll() }
    }
  }

  private struct Call {
    let id: UInt64
    let method: String
    let packet: RPCPacket
    let time: Duration
    /// Ends when the client cancels the call.
    let cancellation: AsyncStream<Void>
  }

  /// Decides what a message means. Returns the call that begins with it.
  private func begin(
    _ packet: RPCPacket, on connection: some ByteStream, _ running: RunningCalls
  ) async throws -> Call? {
    switch packet.head {
    case .call(let id, let method, let milliseconds):
      let (isNew, cancellation) = running.begin(id)
      guard isNew else { throw RPCPacket.violation("the id \(id) is not larger than the one before") }
      guard let cancellation else {
        let busy = RPCFailure(.busy, "\(limits.calls) calls are running")
        try await send(RPCMessage(.failure(id: id, reason: busy)), to: connection)
        return nil
      }
      let time = min(limits.call, .milliseconds(max(0, milliseconds)))
      return Call(id: id, method: method, packet: packet, time: time, cancellation: cancellation)
    case .cancel(let id):
      running.cancel(id)
      return nil
    default: throw RPCPacket.violation("a client sends calls and cancels them")
    }
  }

  private func send(_ message: RPCMessage, to connection: some ByteStream) async throws {
    do {
      try await connection.write(message: message, timeout: .after(limits.write))
    } catch is CancellationError {
      // The client has gone, or the drain is over.
    } catch {
      // A task that fails cancels the other tasks of its group, but not the loop that waits for the next message.
      await connection.abort()
      throw error
    }
  }

  /// Carries out a call, and returns its answer.
  private func answer(_ call: Call, atMost length: Int) async -> RPCMessage {
    do {
      guard let method = methods[ByteText(call.method)] else {
        throw RPCFailure(.unknownMethod, "there is no method \(call.method.prefix(100))")
      }
      let content = try await withThrowingTaskGroup(of: [UInt8].self) { group in
        group.addTask { try await method(call.packet) }
        group.addTask {
          for await _ in call.cancellation {}
          throw CancellationError()
        }
        group.addTask {
          try await Task.sleep(for: call.time)
          throw RPCFailure(.timedOut, "the call has taken longer than \(call.time)")
        }
        defer { group.cancelAll() }
        return try await group.next() ?? []
      }
      let answer = RPCMessage(.answer(id: call.id), content: content)
      _ = try answer.encoded(atMost: length)
      return answer
    } catch let failure as RPCFailure {
      return RPCMessage(.failure(id: call.id, reason: failure))
    } catch is CancellationError {
      return RPCMessage(.failure(id: call.id, reason: RPCFailure(.cancelled, "the call was cancelled")))
    } catch {
      return RPCMessage(.failure(id: call.id, reason: RPCFailure(.failed, "the method \(call.method) has failed")))
    }
  }
}

/// The calls of one connection that run.
private final class RunningCalls: Sendable {
  private struct State {
    var last: UInt64 = 0
    var running: [UInt64: AsyncStream<Void>.Continuation] = [:]
  }

  private let limit: Int
  private let state = Mutex(State())

  init(limit: Int) { self.limit = limit }

  /// The largest id.
  var last: UInt64 { state.withLock { $0.last } }

  /// Notes that a call begins. Returns whether its id is new, and a stream that ends when the call is cancelled; `nil` if too many run.
  func begin(_ id: UInt64) -> (isNew: Bool, AsyncStream<Void>?) {
    state.withLock { state in
      if id <= state.last { return (false, nil) }
      state.last = id
      if state.running.count >= limit { return (true, nil) }
      let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
      state.running[id] = continuation
      return (true, stream)
    }
  }

  /// Cancels a call, unless it has ended.
  func cancel(_ id: UInt64) { state.withLock { $0.running[id] }?.finish() }

  func end(_ id: UInt64) { state.withLock { $0.running[id] = nil } }
}
