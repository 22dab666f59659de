import EpollReactor
import TestSupport
import Testing

@testable import ActorSockets

/// The same program on a transport that goes wrong at every step in turn.
@Suite(.conformance, .endsInTime) struct ScriptedFaultTests {
  private static let incoming = pattern(20) + Array("a line\nanother\n".utf8) + pattern(11, from: 40)
  private static let writes = [pattern(3), pattern(30, from: 3), [], pattern(12, from: 33)]

  private struct Outcome {
    var reads: [Result<[UInt8]?, any Error>] = []
    var writes: [Result<Void, any Error>] = []
    var report: CloseReport?
  }

  /// Reads of every kind and writes, all enqueued, and then a close that waits for them.
  private static func run(on stream: ScriptedStream) async throws -> Outcome {
    let reads: [Pending<[UInt8]?>] = [
      stream.enqueueRead(.message(ofLength: 20)), stream.enqueueRead(.message(until: .lf)),
      stream.enqueueRead(.message(until: .lf)), stream.enqueueRead(.peek(upTo: 1)),
      stream.enqueueRead(.message(ofLength: 11)),
    ]
    let writes = Self.writes.map { stream.enqueueWrite($0) }
    stream.start()
    var outcome = Outcome()
    for read in reads { outcome.reads.append(await Result { try await read.value }) }
    for write in writes { outcome.writes.append(await Result { try await write.value }) }
    await stream.close(after: .pendingReadsAndWrites)
    outcome.report = try await stream.closed
    return outcome
  }

  private static let expectedReads: [[UInt8]] = [
    pattern(20), Array("a line\n".utf8), Array("another\n".utf8), pattern(1, from: 40), pattern(11, from: 40),
  ]

  /// The steps of a run in which nothing goes wrong.
  private static func steps() async throws -> Int {
    let stream = ScriptedStream(incoming, .short, at: nil, reactor: .shared)
    let outcome = try await run(on: stream)
    #expect(try outcome.reads.map { try $0.get() } == expectedReads)
    for write in outcome.writes { try write.get() }
    return await stream.steps
  }

  @Test(arguments: ScriptedStream.Fault.allCases)
  func `Whatever goes wrong at whichever step, every operation has one true outcome`(
    fault: ScriptedStream.Fault
  ) async throws {
    let steps = try await Self.steps()
    #expect(steps > 12)
    for step in 0...steps {
      let stream = ScriptedStream(Self.incoming, fault, at: step, reactor: .shared)
      let outcome = try await Self.run(on: stream)
      let sent = await stream.sent
      #expect(await stream.releases > 0, "\(fault) at step \(step)")
      #expect(Self.writes.flatMap { $0 }.starts(with: sent), "\(fault) at step \(step)")
      try Self.check(outcome, sent: sent, "\(fault) at step \(step)")
      if fault == .short || fault == .blocked {
        #expect(try outcome.reads.map { try $0.get() } == Self.expectedReads, "\(fault) at step \(step)")
        for write in outcome.writes { try write.get() }
      }
    }
  }

  /// Reads and writes that succeeded are the first, and have their bytes; the report counts the bytes.
  private static func check(_ outcome: Outcome, sent: [UInt8], _ comment: Comment) throws {
    let read = outcome.reads.prefix { (try? $0.get()) != nil }
    #expect(try read.map { try $0.get() } == Array(expectedReads.prefix(read.count)), comment)
    // Behind a read that found the end there are only others that find it, or fail.
    for late in outcome.reads.dropFirst(read.count) { #expect((try? late.get()) == nil, comment) }
    var written = 0
    var hasFailed = false
    for (bytes, result) in zip(Self.writes, outcome.writes) {
      written += bytes.count
      if case .failure = result { hasFailed = true } else if !bytes.isEmpty { #expect(!hasFailed, comment) }
      if case .success = result, !bytes.isEmpty { #expect(sent.count >= written, comment) }
    }
    let report = try #require(outcome.report)
    #expect(report.bytesSent == sent.count, comment)
    #expect(report.bytesSent + report.bytesUnsent <= written, comment)
    if hasFailed { #expect(report.bytesSent + report.bytesUnsent == written, comment) }
  }
}

extension Result where Failure == any Error, Success: Sendable {
  fileprivate init(_ body: () async throws -> Success) async {
    do { self = .success(try await body()) } catch { self = .failure(error) }
  }
}
