import ActorSockets
import ActorSocketsTLS
import TestSupport
import Testing

struct TransportStack: Sendable, CustomTestStringConvertible {
  let transport: Transport
  let version: TLSVersion?

  static let all = [Transport.tcpOverIPv4, .tcpOverIPv6, .unix, .inMemory].flatMap { transport in
    [nil, TLSVersion.v12, .v13].map { Self(transport: transport, version: $0) }
  }

  var testDescription: String { version.map { "\($0) over \(transport.rawValue)" } ?? transport.rawValue }

  func pair() async throws -> Pair {
    let pair = try await transport.pair()
    guard let version else { return pair }
    return try await pair.encrypted(version)
  }

  func isAbort(_ error: any Error) -> Bool {
    switch error {
    case let error as SocketError: transport.hasReset && error.code == .connectionReset
    // A unix socket has no reset, so TLS only misses the peer's close_notify.
    case let error as TLSError: !transport.hasReset && error.code == .truncated
    default: false
    }
  }
}

enum StreamEnd: String, CaseIterable, CustomTestStringConvertible {
  case close, finish, abort, drop

  var testDescription: String { rawValue }

  func happens(to stream: inout (any ByteStream)?) async throws {
    switch self {
    case .close: await stream?.close()
    case .finish:
      try await stream?.finishWriting()
      await stream?.close()
    case .abort: await stream?.abort()
    case .drop: stream = nil
    }
  }
}

@Suite(.conformance) struct EndMatrixTests {
  /// Ends one side as a task of its own, because `close()` may wait for the peer. The task returns the side, unless it was dropped.
  private static func ending(_ side: any ByteStream, _ end: StreamEnd) -> Task<(any ByteStream)?, any Error> {
    Task {
      var side: (any ByteStream)? = side
      try await end.happens(to: &side)
      return side
    }
  }

  /// Expects that every call throws `.closed`, or the error of an abort by the other side.
  private static func expectClosed(
    _ side: (any ByteStream)?, _ stack: TransportStack, isReset: Bool = false, _ what: String
  ) async {
    guard let side else { return }
    func expectRefusal(_ call: () async throws -> Void) async {
      do {
        try await call()
        Issue.record("\(what): a call of a closed stream succeeds")
      } catch {
        let isClosed = (error as? SocketError)?.code == .closed
        #expect(isClosed || isReset && stack.isAbort(error), "\(what): \(error)")
      }
    }
    await expectRefusal { _ = try await side.read() }
    await expectRefusal { try await side.write([1]) }
    await expectRefusal { try await side.finishWriting() }
    #expect(await side.state == .closed, "\(what)")
  }

  @Test(arguments: TransportStack.all, StreamEnd.allCases)
  func `A side that answers the other's end sees that end, and nothing else`(
    stack: TransportStack, first: StreamEnd
  ) async throws {
    for second in StreamEnd.allCases {
      for clientIsFirst in [true, false] {
        let what = "\(first) of the \(clientIsFirst ? "client" : "server"), answered by \(second)"
        try await within("\(what) is over") {
          var (own, other): ((any ByteStream)?, (any ByteStream)?)
          do {
            let pair = try await stack.pair()
            (own, other) = clientIsFirst ? (pair.client, pair.server) : (pair.server, pair.client)
          }
          let ending = Self.ending(try #require(own), first)
          own = nil
          var failure: (any Error)?
          do {
            #expect(try await other?.read() == nil, "\(what)")
          } catch {
            failure = error
          }
          let isReset = first == .abort && (stack.transport.hasReset || stack.version != nil)
          #expect(isReset == (failure != nil), "\(what)")
          if let failure { #expect(stack.isAbort(failure), "\(what): \(failure)") }
          let seen = second == .drop ? nil : other
          // Answering a clean end throws nothing, on every transport.
          do { try await second.happens(to: &other) } catch { #expect(isReset, "\(what): \(error)") }
          let ended = try await ending.value
          if let seen, !isReset {
            let reason = second == .abort ? "local" : "remote"
            #expect(try await "\(seen.closed.reason)" == reason, "\(what)")
            if let beneath = (seen as? TLSConnection)?.carrier {
              // It may have closed before the peer's end reached it.
              #expect(try await ["local", "remote"].contains("\(beneath.closed.reason)"), "\(what)")
            }
          }
          await Self.expectClosed(ended, stack, what)
          await Self.expectClosed(other, stack, isReset: isReset, what)
        }
      }
    }
  }

  @Test(arguments: TransportStack.all, StreamEnd.allCases)
  func `Both sides may end at the same time, in any way`(stack: TransportStack, first: StreamEnd) async throws {
    for second in StreamEnd.allCases {
      let what = "\(first) and \(second)"
      try await within("\(what) are over") {
        let (one, two) = try await {
          let pair = try await stack.pair()
          return (Self.ending(pair.client, first), Self.ending(pair.server, second))
        }()
        for side in [one, two] {
          // Finishing fails if the other side has aborted before.
          do {
            let isReset = first == .abort || second == .abort
            await Self.expectClosed(try await side.value, stack, isReset: isReset, what)
          } catch let error as SocketError {
            // The close_notify of a side that has not read the peer's reaches nothing if the peer has closed. Only TCP takes it all the same.
            let takesAll = [.tcpOverIPv4, .tcpOverIPv6].contains(stack.transport)
            let isLate = stack.version != nil && !takesAll && error.code == .connectionReset
            #expect(first == .abort || second == .abort || isLate, "\(what): \(error)")
          } catch {
            #expect(stack.isAbort(error) && (first == .abort || second == .abort), "\(what): \(error)")
          }
        }
      }
    }
  }

  @Test(arguments: TransportStack.all, [StreamEnd.close, .finish, .drop])
  func `A relay between streams that end cleanly ends cleanly`(stack: TransportStack, first: StreamEnd) async throws {
    for second in [StreamEnd.close, .finish, .drop] {
      for nearIsFirst in [true, false] {
        let what = "\(first), answered by \(second)"
        try await within("\(what) is over") {
          var (own, other): ((any ByteStream)?, (any ByteStream)?)
          let relaying: Task<(fromFirst: Int, fromSecond: Int), any Error>
          do {
            let (near, far) = (try await stack.pair(), try await stack.pair())
            // The task must hold these two only, so that the others can be dropped.
            let (between, and) = (near.server, far.client)
            relaying = Task { try await relay(between: between, and: and) }
            (own, other) = nearIsFirst ? (near.client, far.server) : (far.server, near.client)
          }
          try await own?.write(utf8: "hello")
          let ending = Self.ending(try #require(own), first)
          own = nil
          #expect(try await other?.readToEnd() == Array("hello".utf8), "\(what)")
          try await second.happens(to: &other)
          _ = try await ending.value
          let counts = try await relaying.value
          #expect(counts == (nearIsFirst ? (5, 0) : (0, 5)), "\(what)")
        }
      }
    }
  }
}
