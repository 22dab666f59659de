import ActorSocketsTesting
import EpollReactor
import Foundation
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// What a server does with the errors of its handlers.
@Suite(.endsInTime) struct HandlerErrorTests {
  struct Broken: Error {}

  private final class Observer: ReactorObserver {
    let failures = Notes<String>()
    func handlerFailed(_ connection: ObservedConnection, _ error: any Error) {
      failures.add("\(connection.remoteAddress != nil) \(error)")
    }
  }

  private func serve(
    _ kind: ListenerKind, on reactor: Reactor = .shared, failures: Notes<String>? = nil,
    client act: (Client) async throws -> Void = { _ in },
    _ handler: @escaping @concurrent @Sendable (any ByteStream) async throws -> Void
  ) async throws -> ServeReport {
    let listener = try kind.listener(on: reactor)
    let hasEnded = Gate()
    let serving = Task {
      try await listener.serveAny(onFailure: { failure in
        let code = (failure.error as? SocketError)?.code.description ?? "\(failure.error)"
        failures?.add("\(failure.connection.remoteAddress != nil) \(code)")
      }) { connection in
        defer { hasEnded.open() }
        try await handler(connection)
      }
    }
    let client = try await listener.client()
    try await act(client)
    await hasEnded.wait()
    await client.close()
    return try await serving.stop()
  }

  @Test func `An error that the program was told of is no abort, even if the drain ends meanwhile`() async throws {
    let listener = try TCPListener.onLoopback()
    let (isTold, mayReturn) = (Gate(), Gate())
    let serving = Task {
      let options = ServeOptions(onFailure: { _ in
        isTold.open()
        while !mayReturn.isOpen {}
      })
      return try await listener.serve(options) { _ in throw Broken() }
    }
    let client = try RawSocket.connected(to: listener.address)
    await isTold.wait()
    await listener.drain(within: .zero)
    // When no connection is left, the drain has aborted all of them.
    try await eventually("the drain is over") { await listener.server.active.isEmpty }
    mayReturn.open()
    let report = try await serving.value
    #expect(report.failed == 1 && report.aborted == 0, "\(report)")
    client.close()
  }

  @Test(arguments: ListenerKind.allCases)
  func `Every error of a handler is told, and counted as the program's or the peer's`(kind: ListenerKind) async throws {
    let failures = Notes<String>()
    let own = try await serve(kind, failures: failures) { _ in throw Broken() }
    #expect(own.accepted == 1 && own.failed == 1 && own.failedByPeer == 0 && own.finished == 0)
    let reset = try await serve(kind, failures: failures, client: { await $0.reset() }) { _ = try await $0.read() }
    #expect(reset.accepted == 1 && reset.failed == 0 && reset.failedByPeer == 1)
    let truncated = try await serve(
      kind, failures: failures,
      client: {
        try await $0.send("x")
        await $0.close()
      }
    ) { _ = try await $0.read(exactly: 2) }
    #expect(truncated.failedByPeer == 1)
    let slow = try await serve(kind, failures: failures) { _ = try await $0.read(timeout: .within(.zero)) }
    #expect(slow.failedByPeer == 1)
    let long = try await serve(kind, failures: failures, client: { try await $0.send("xxxx") }) {
      _ = try await $0.read(until: .lf, maximumLength: 3)
    }
    #expect(long.failedByPeer == 1)
    let closed = try await serve(kind, failures: failures) {
      await $0.close()
      try await $0.write([1])
    }
    #expect(closed.failed == 1)
    #expect(
      failures.all == [
        "true Broken()", "true connectionReset", "true endOfStream", "true timedOut", "true limitExceeded",
        "true closed",
      ])
  }

  @Test(arguments: ListenerKind.allCases)
  func `The observer hears of the error of a handler, also after the end of the connection`(kind: ListenerKind)
    async throws
  {
    let reactor = Reactor()
    let observer = Observer()
    reactor.observer = observer
    _ = try await serve(kind, on: reactor) { _ in throw Broken() }
    _ = try await serve(kind, on: reactor) {
      await $0.close()
      throw Broken()
    }
    _ = try await serve(kind, on: reactor) { _ in }
    #expect(observer.failures.all == ["true Broken()", "true Broken()"])
  }

  @Test func `The observer hears of the connections of all reactors of a server`() async throws {
    let (reactor, observer) = (Reactor(), Observer())
    reactor.observer = observer
    let listener = try TCPListener.onLoopback(on: reactor)
    let serving = Task { try await listener.serve(.init(reactors: 3, onFailure: { _ in })) { _ in throw Broken() } }
    for _ in 0..<6 {
      let client = try RawSocket.connected(to: listener.address)
      await #expect(throws: SystemError.self) { try await client.receive() }
      client.close()
    }
    #expect(try await serving.stop().failed == 6)
    #expect(observer.failures.all.count == 6)
  }

  @Test(arguments: ListenerKind.allCases)
  func `Handlers that are cancelled because a drain is over have not failed`(kind: ListenerKind) async throws {
    let (reactor, observer, failures) = (Reactor(), Observer(), Notes<String>())
    reactor.observer = observer
    let listener = try kind.listener(on: reactor)
    let isServed = Gate()
    let serving = Task {
      try await listener.serveAny(drain: .immediately, onFailure: { failures.add("\($0.error)") }) { connection in
        isServed.open()
        _ = try await connection.read()
      }
    }
    let client = try await listener.client()
    await isServed.wait()
    let report = try await serving.stop()
    #expect(report.aborted == 1 && report.failed == 0 && report.failedByPeer == 0)
    #expect(failures.all == [] && observer.failures.all == [])
    await client.expectReset()
  }

  // MARK: Standard error

  /// Serves a client for each error, whose handler throws it.
  private static func fail(with errors: [any Error & Sendable]) async throws {
    let listener = try TCPListener.onLoopback()
    let serving = Task {
      try await listener.serve { connection in throw errors[Int(try await connection.readInteger(as: UInt8.self))] }
    }
    for index in errors.indices {
      let client = try RawSocket.connected(to: listener.address)
      try client.send([UInt8(index)])
      await #expect(throws: SystemError.self) { try await client.receive() }
      client.close()
    }
    let report = try await serving.stop()
    #expect(report.failed + report.failedByPeer == errors.count)
  }

  /// Replaces standard error by a pipe, and returns the end to read from.
  private static func redirectStandardError() throws -> FileHandle {
    let pipe = Pipe()
    dup2(pipe.fileHandleForWriting.fileDescriptor, STDERR_FILENO)
    try pipe.fileHandleForWriting.close()
    return pipe.fileHandleForReading
  }

  @Test func `Errors of the program are printed in one line each, and those of peers are not`() async {
    await #expect(processExitsWith: .success) {
      struct TwoLines: Error, CustomStringConvertible {
        var description: String { "first\nsecond\u{7f}" + String(repeating: "x", count: 2_000) }
      }
      try await within("all are served") {
        let before = dup(STDERR_FILENO)
        let output = try Self.redirectStandardError()
        try await Self.fail(with: [Broken(), SocketError(.connectionReset, operation: "read"), TwoLines()])
        let lines = try await onThread {
          var text = ""
          while text.count(where: { $0 == "\n" }) < 2 { text += String(decoding: output.availableData, as: UTF8.self) }
          return text.split(separator: "\n")
        }
        dup2(before, STDERR_FILENO)
        #expect(lines.count == 2)
        #expect(lines[0].hasPrefix("TCPConnection ") && lines[0].hasSuffix(": the handler failed: Broken()"))
        #expect(lines[1].contains(": the handler failed: first second xxx") && lines[1].utf8.count == 1_000)
      }
    }
  }

  @Test func `A reader of standard error that stands still does not hold up the server`() async {
    await #expect(processExitsWith: .success) {
      try await within("all are served") {
        let before = dup(STDERR_FILENO)
        let output = try Self.redirectStandardError()
        // 64 KiB, the pipe's room, and the 100 lines that wait, are filled by fewer than 250 lines of this error.
        let error = SocketError(.closed, operation: String(repeating: "x", count: 900))
        try await Self.fail(with: [any Error & Sendable](repeating: error, count: 250))
        // What the test library prints at the end must find a reader.
        dup2(before, STDERR_FILENO)
        withExtendedLifetime(output) {}
      }
    }
  }

  @Test func `A standard error without a reader does not end the process`() async {
    await #expect(processExitsWith: .success) {
      try await within("all are served") {
        let before = dup(STDERR_FILENO)
        try Self.redirectStandardError().close()
        for _ in 0..<3 { try await Self.fail(with: [Broken()]) }
        dup2(before, STDERR_FILENO)
      }
    }
  }
}
