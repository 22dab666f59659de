import ActorSockets
import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

// Many operations of all kinds are queued at once, cancelled, taken back and timed out at random. Whatever becomes of each,
// the bytes of those that succeeded, in the order of the calls, are the stream.

@Suite(.tags(.repeats)) struct ManyOperationsTests {
  private static let seeds = Array(1...12 as ClosedRange<UInt64>)

  /// One operation under way.
  private struct Call<Value: Sendable>: Sendable {
    let task: Task<Value, any Error>
    let takeBack: @Sendable () -> Void
  }

  private static func read(_ stream: any ByteStream, _ random: inout SeededRandom) -> Call<[UInt8]> {
    let length = Int.random(in: 0...400, using: &random)
    let timeout: Timeout? =
      switch Int.random(in: 0..<6, using: &random) {
      case 0: .seconds(Int.random(in: 0...3, using: &random))
      case 1: .within(.seconds(Int.random(in: 0...3, using: &random)))
      case 2: .after(.seconds(1)) { elapsed, _ in elapsed < .seconds(3) ? .seconds(1) : nil }
      default: nil
      }
    func call(_ body: @escaping @Sendable () async throws -> [UInt8]) -> Call<[UInt8]> {
      let task = Task.immediate { try await body() }
      return Call(task: task) { task.cancel() }
    }
    func pending(_ request: ReadRequest<[UInt8]>) -> Call<[UInt8]> {
      let pending = stream.enqueueRead(request, timeout: timeout)
      return Call(task: Task { try await pending.value }) { pending.cancel() }
    }
    switch Int.random(in: 0..<9, using: &random) {
    case 0, 1: return call { try await stream.read(exactly: length, timeout: timeout) }
    case 2: return call { try await stream.read(upTo: length + 1, timeout: timeout) ?? [] }
    case 3: return call { try await stream.read(until: Delimiter([200]), maximumLength: length + 1, timeout: timeout) }
    case 4:
      return call {
        try await stream.withBytes(upTo: 1000, timeout: timeout) { bytes, consumed in
          consumed = bytes.count > length ? length + 1 : 0
          return [UInt8](copying: bytes.extracting(first: consumed))
        } ?? []
      }
    case 5:
      return call {
        _ = try await stream.peek(upTo: length + 1, timeout: timeout)
        return []
      }
    case 6:
      return call {
        for try await message in stream.messages(ofLength: length + 1) { return message }
        return []
      }
    case 7: return pending(.exactly(length))
    default: return pending(.until(Delimiter([100]), maximumLength: length + 50))
    }
  }

  @Test(arguments: Transport.allCases, seeds)
  func `Whatever becomes of reads, those that succeed bring the stream in the order of the calls`(
    transport: Transport, seed: UInt64
  ) async throws {
    try await within("all reads come out; seed \(seed)", seconds: 120) {
      var random = SeededRandom(seed: seed)
      let time = ManualTime()
      let pair = try await transport.pair(on: time.reactor)
      let total = 150_000
      let client = pair.client
      let writing = Task {
        var random = SeededRandom(seed: seed &+ 100)
        var sent = 0
        while sent < total {
          let count = min(Int.random(in: 1...700, using: &random), total - sent)
          try await client.write(pattern(count, from: sent))
          sent += count
          if Int.random(in: 0..<4, using: &random) == 0 { await Task.yield() }
        }
        try await client.finishWriting()
      }
      var read: [UInt8] = []
      var waiting: [Call<[UInt8]>] = []
      func settle(_ call: Call<[UInt8]>) async throws {
        do { read += try await call.task.value } catch is CancellationError {
        } catch let error as SocketError {
          let expected: [SocketError.Code] = [.timedOut, .limitExceeded, .endOfStream, .precedingReadFailed]
          if !expected.contains(error.code) { throw error }
        }
      }
      for _ in 0..<1500 {
        waiting.append(Self.read(pair.server, &random))
        if Int.random(in: 0..<3, using: &random) == 0 { waiting.randomElement(using: &random)?.takeBack() }
        if Int.random(in: 0..<20, using: &random) == 0 { await time.advance(by: .seconds(1)) }
        while waiting.count > Int.random(in: 0...30, using: &random) {
          // If more than ten reads wait, the oldest is taken back, because it may never complete by itself.
          if waiting.count > 10 { waiting[0].takeBack() } else if read.count > total - 1000 { break }
          if waiting.count > 10 { try await settle(waiting.removeFirst()) } else { break }
        }
      }
      for call in waiting {
        call.takeBack()
        try await settle(call)
      }
      read += try await pair.server.readToEnd()
      try await writing.value
      #expect(read == pattern(total), "seed \(seed): \(read.count) bytes of \(total)")
      #expect(await pair.server.status.queuedReads == 0)
    }
  }

  enum Fate: Sendable { case sent, gone, unknown }

  private static func write(
    _ bytes: [UInt8], to stream: any ByteStream, _ random: inout SeededRandom
  ) -> Call<Fate> {
    let timeout: Timeout? =
      switch Int.random(in: 0..<5, using: &random) {
      case 0: .seconds(Int.random(in: 0...2, using: &random))
      case 1: .within(.seconds(Int.random(in: 0...2, using: &random)))
      default: nil
      }
    func call(_ body: @escaping @Sendable () async throws -> Void) -> Task<Fate, any Error> {
      Task.immediate {
        do {
          try await body()
          return .sent
        } catch is CancellationError {
          return .unknown
        } catch let error as SocketError where error.code == .timedOut {
          return error.bytesTransferred > 0 ? .sent : .gone
        } catch let error as SocketError where error.code == .limitExceeded {
          return .gone
        }
      }
    }
    switch Int.random(in: 0..<4, using: &random) {
    case 0:
      let task = call { try await stream.write(bytes, timeout: timeout) }
      return Call(task: task) { task.cancel() }
    case 1:
      let task = call { try await stream.write(bytes.span, timeout: timeout) }
      return Call(task: task) { task.cancel() }
    case 2:
      let task = call {
        try await stream.write(contentsOf: [Array(bytes[..<5]), [], Array(bytes[5...])], timeout: timeout)
      }
      return Call(task: task) { task.cancel() }
    default:
      let pending = stream.enqueueWrite(bytes, timeout: timeout)
      return Call(task: call { try await pending.value }) { pending.cancel() }
    }
  }

  /// A message in front of which its length stands: its number, and the pattern from there on.
  private static func message(_ number: Int, _ length: Int) -> [UInt8] {
    let count = length + 2
    return [UInt8(count >> 8), UInt8(count & 255), UInt8(number >> 8), UInt8(number & 255)]
      + pattern(length, from: number)
  }

  @Test(arguments: Transport.allCases, seeds)
  func `Whatever becomes of writes, they arrive whole and in the order of the calls`(
    transport: Transport, seed: UInt64
  ) async throws {
    try await within("all writes come out; seed \(seed)", seconds: 120) {
      var random = SeededRandom(seed: seed)
      let time = ManualTime()
      let pair = try await transport.pair(on: time.reactor) {
        $0.isNarrow = true
        $0.writeBudget = 100_000
      }
      let server = pair.server
      let reading = Task {
        var numbers: [Int] = []
        for try await message in server.messages(lengthPrefix: .uint16(.big)) {
          let number = Int(message[0]) << 8 | Int(message[1])
          if Array(message[2...]) != pattern(message.count - 2, from: number) {
            throw Overdue(description: "seed \(seed): message \(number) is torn")
          }
          numbers.append(number)
          if number % 16 == 0 { await Task.yield() }
        }
        return numbers
      }
      var calls: [Call<Fate>] = []
      for number in 0..<800 {
        let length = Int.random(in: 1...(number % 10 == 0 ? 60_000 : 3000), using: &random)
        calls.append(Self.write(Self.message(number, length), to: pair.client, &random))
        if Int.random(in: 0..<3, using: &random) == 0 { calls.suffix(8).randomElement(using: &random)?.takeBack() }
        if Int.random(in: 0..<15, using: &random) == 0 { await time.advance(by: .seconds(1)) }
        if Int.random(in: 0..<6, using: &random) == 0 { _ = try? await calls[number].task.value }
      }
      var fates: [Fate] = []
      for call in calls { fates.append(try await call.task.value) }
      try await pair.client.finishWriting()
      let numbers = try await reading.value
      #expect(numbers == numbers.sorted() && Set(numbers).count == numbers.count, "seed \(seed)")
      let arrived = Set(numbers)
      for (number, fate) in fates.enumerated() {
        switch fate {
        case .sent: #expect(arrived.contains(number), "seed \(seed): \(number) is lost")
        case .gone: #expect(!arrived.contains(number), "seed \(seed): \(number) was not taken back")
        case .unknown: break
        }
      }
      let status = await pair.client.status
      #expect(status.queuedWrites == 0 && status.unsentBytes == 0)
    }
  }
}
