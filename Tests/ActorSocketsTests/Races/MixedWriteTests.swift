import ActorSockets
import Glibc
import SocketSystem
import TestSupport
import Testing

@Suite(.tags(.manualMemory)) struct MixedWriteTests {
  enum Kind: CaseIterable, Sendable { case array, pieces, file, descriptor, pending, flushed }

  private struct Account: Sendable {
    var sent: Set<Int> = []
    var gone: Set<Int> = []
    /// The connection may have taken them before the end came.
    var unknown: Set<Int> = []
    var withDescriptor: Set<Int> = []
  }

  private struct Mix: Sendable {
    let isUnix: Bool
    let client: TCPConnection
    let server: TCPConnection
    let account = Locked(Account())

    init(isUnix: Bool) async throws {
      self.isUnix = isUnix
      let (near, far) = isUnix ? try RawSocket.unixPair() : try RawSocket.pair()
      var configuration = TCPConnection.Configuration()
      configuration.pendingDescriptorLimit = 1000
      client = try TCPConnection.adopt(fileDescriptor: near.release(), configuration: configuration)
      server = try TCPConnection.adopt(fileDescriptor: far.release(), configuration: configuration)
      for end in [client, server] {
        try await end.withFileDescriptor {
          try BorrowedDescriptor($0).set(.sendBuffer, to: isUnix ? 8192 : 100_000)
          try BorrowedDescriptor($0).set(.receiveBuffer, to: isUnix ? 8192 : 100_000)
        }
      }
    }

    func write(_ kind: Kind, _ number: Int, _ length: Int, _ timeout: Timeout?) async throws {
      let bytes = record(number, length)
      switch kind {
      case .array: try await client.write(bytes, timeout: timeout)
      case .pieces:
        let third = bytes.count / 3
        try await client.write(
          contentsOf: [Array(bytes[..<third]), [], Array(bytes[third...])], timeout: timeout)
      case .file:
        let file = try TemporaryFile([1, 2, 3] + bytes + [4]).source
        try await client.sendFile(file, range: 3..<3 + bytes.count, timeout: timeout)
      case .descriptor:
        // The file says which record it goes with.
        let file = try TemporaryFile(record(number, 0))
        // SAFETY: the text is valid for the call.
        let descriptor = OwnedDescriptor(owning: unsafe open(file.path, O_RDONLY | O_CLOEXEC))
        try await client.write(bytes, passing: descriptor, timeout: timeout)
      case .pending: try await client.enqueueWrite(bytes, timeout: timeout).value
      case .flushed:
        try await client.write(bytes, timeout: timeout)
        try await client.flush(until: .acknowledged, timeout: .within(.milliseconds(5)))
      }
    }

    func sendAll(_ numbers: Range<Int>, _ seed: UInt64) async throws {
      var random = SeededRandom(seed: seed)
      for number in numbers {
        let kinds = isUnix ? Kind.allCases : Kind.allCases.filter { $0 != .descriptor }
        let kind = kinds.randomElement(using: &random) ?? .array
        if kind == .descriptor { account.withLock { _ = $0.withDescriptor.insert(number) } }
        let length = Int.random(in: 0...60_000, using: &random)
        let timeout: Timeout? =
          Bool.random(using: &random) ? nil : .within(.microseconds(Int.random(in: 0...3000, using: &random)))
        let task = Task.immediate { try await write(kind, number, length, timeout) }
        switch Int.random(in: 0..<6, using: &random) {
        case 0...1: task.cancel()
        case 2:
          spin(for: Int64.random(in: 0..<500_000, using: &random))
          task.cancel()
        default: break
        }
        do {
          try await task.value
          account.withLock { _ = $0.sent.insert(number) }
        } catch is CancellationError {
          account.withLock { _ = $0.unknown.insert(number) }
        } catch let error as SocketError where error.code == .timedOut {
          // A flush that is late says nothing of the write before it.
          let isGone = error.bytesTransferred == 0 && kind != .flushed
          account.withLock { _ = isGone ? $0.gone.insert(number) : $0.unknown.insert(number) }
        }
      }
    }

    func receiveAll(_ seed: UInt64) async throws -> (Records, descriptors: [Int]) {
      var random = SeededRandom(seed: seed)
      var records = Records()
      var descriptors: [Int] = []
      while let bytes = try await server.read(upTo: Int.random(in: 1...40_000, using: &random)) {
        records.receive(bytes[...])
        while let descriptor = await server.takeDescriptor() { descriptors.append(descriptor.recordNumber()) }
        // Now and then the reader pauses, so that the writers fill the buffers and have to wait.
        if Int.random(in: 0..<8, using: &random) == 0 { for _ in 0..<200 { await Task.yield() } }
      }
      return (records, descriptors)
    }
  }

  @Test(arguments: [true, false])
  func `Writes of all kinds from several tasks are not torn, lost or doubled`(isUnix: Bool) async throws {
    for seed in 0..<UInt64(max(3, rounds / 240)) {
      try await within("all records arrive", seconds: 60) {
        let mix = try await Mix(isUnix: isUnix)
        let sending = Task {
          try await withThrowingTaskGroup { group in
            for writer in 0..<4 {
              group.addTask { try await mix.sendAll(writer * 60..<(writer + 1) * 60, seed * 4 + UInt64(writer)) }
            }
            try await group.waitForAll()
          }
          try await mix.client.finishWriting()
        }
        let (records, descriptors) = try await mix.receiveAll(seed)
        try await sending.value
        let account = mix.account.withLock { $0 }
        let arrived = Set(records.numbers)
        #expect(records.isWhole)
        #expect(arrived.count == records.numbers.count, "a record came twice")
        #expect(account.sent.isSubset(of: arrived), "lost: \(account.sent.subtracting(arrived))")
        #expect(account.gone.isDisjoint(with: arrived), "not taken back: \(account.gone.intersection(arrived))")
        #expect(arrived.isSubset(of: account.sent.union(account.unknown)))
        #expect(descriptors == records.numbers.filter { account.withDescriptor.contains($0) })
        #expect(await mix.client.pendingOperations.isEmpty)
        async let closing: Void = mix.client.close()
        await mix.server.close()
        await closing
      }
    }
  }
}

extension OwnedDescriptor {
  fileprivate borrowing func recordNumber() -> Int {
    var header = [UInt8](repeating: 0, count: 12)
    // SAFETY: pread writes no more than the array has room for.
    let count = unsafe header.withUnsafeMutableBytes { unsafe pread(number, $0.baseAddress, $0.count, 0) }
    return count == 12 ? header.prefix(8).reduce(0) { $0 << 8 | Int($1) } : -1
  }
}
