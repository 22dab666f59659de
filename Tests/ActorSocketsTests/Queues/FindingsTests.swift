import EpollReactor
import SocketSystem
import Testing

@testable import ActorSockets

@Suite struct FindingsTests {
  @Test func `Empty pieces in front of a byte do not hide it from a gathered send`() {
    var queue = WriteQueue<Int>()
    queue.open()
    _ = queue.admit(.pieces(Array(repeating: [], count: 64) + [[1]]), 1)
    guard case .begin = queue.step(), case .send = queue.step() else { Issue.record("not ready to send"); return }
    let shown = queue.withUnsent(maximumPieces: 64, maximumBytes: 1000) { pieces, _ in
      pieces.prefix(64).reduce(0) { $0 + $1.count }
    }
    #expect(shown == 1)
  }

  @Test func `No more pieces than the maximum are shown`() {
    var queue = WriteQueue<Int>()
    queue.open()
    _ = queue.admit(.pieces(Array(repeating: [1], count: 100)), 1)
    #expect(queue.withUnsent(maximumPieces: 64, maximumBytes: 1000) { pieces, _ in pieces.count } == 64)
    _ = queue.admit(.pieces(Array(repeating: [1], count: 100)), 1)
    #expect(queue.withUnsent(maximumPieces: 64, maximumBytes: 1000) { pieces, _ in pieces.count } == 64)
  }

  @Test func `A write whose last byte is sent succeeds, though the stream breaks before it leaves`() {
    var queue = WriteQueue<Int>()
    queue.open()
    _ = queue.admit(.pieces([[1, 2]]), 1)
    _ = queue.admit(.pieces([[3]]), 2)
    _ = queue.step()
    queue.sent(3)
    queue.refuse(SocketError(.connectionReset, operation: "write"))
    var outcomes: [Bool] = []
    while !queue.isEmpty {
      switch queue.step() {
      case .finish(_, .success): outcomes.append(true)
      case .finish(_, .failure): outcomes.append(false)
      case .begin: continue
      default: Issue.record("more to do than to finish"); return
      }
    }
    #expect(outcomes == [true, true])
  }

  @Test func `A read that looks at the bytes itself never sees the line feed of a line that is read`() {
    var queue = ReadQueue<Int>()
    queue.open()
    queue.received(([97, 13] as [UInt8]).span)
    _ = queue.admit(.line(.any, maximumLength: 10), isEnqueued: false, 1)
    _ = queue.step()
    guard case .finish = queue.step() else { Issue.record("no line"); return }
    let id = queue.admit(.turn(moreThan: 0), isEnqueued: false, 2)
    _ = queue.step()
    guard case .receive = queue.step() else { Issue.record("wants nothing"); return }
    let isGranted = queue.grantTurn(id)
    #expect(!isGranted)
  }

  @Test func `A read that waits for more than it saw sees what comes after the buffer was taken`() {
    var queue = ReadQueue<Int>()
    queue.open()
    queue.received(([1, 2, 3] as [UInt8]).span)
    let id = queue.admit(.turn(moreThan: 0), isEnqueued: false, 1)
    _ = queue.step()
    guard case .finish(_, .success(.turn)) = queue.step() else { Issue.record("no turn"); return }
    _ = queue.endTurn(id, consumed: 0, waitingForMoreThan: 3)
    _ = queue.takeBuffered()
    queue.received(([4] as [UInt8]).span)
    guard case .finish(_, .success(.turn)) = queue.step() else { Issue.record("no turn for the new byte"); return }
  }

  @Test func `The name of a unix peer cannot break a description into lines`() {
    guard let path = UnixPath("@a\n\u{1b}[31mroot") else { return }
    let error = SocketError(.connectionReset, operation: "read", address: .unix(path))
    #expect(error.description.unicodeScalars.allSatisfy { $0.value >= 32 && $0.value < 127 }, "\(error)")
  }

  @Test func `The largest integers mean never`() async {
    await #expect(processExitsWith: .success) {
      precondition(Timeout.seconds(UInt64.max).nanoseconds == .max)
    }
    await #expect(processExitsWith: .success) {
      precondition(Timeout.after(.seconds(Int64.max) + .seconds(Int64.max)).nanoseconds == .max)
    }
    await #expect(processExitsWith: .success) {
      precondition(Timeout.after(.seconds(Int64.min) - .seconds(2)).nanoseconds == 0)
    }
    await #expect(processExitsWith: .success) {
      precondition(Timeout.milliseconds(Int128.max).nanoseconds == .max)
    }
  }

  @Test func `An error that repeats at every accept does not make the listener spin`() {
    var policy = AcceptPolicy()
    let verdicts = (0..<1000).map { _ in policy.failed(errno: Errno.notPermitted) }
    #expect(verdicts.contains { $0 != .skip })
  }

  @Test func `Enqueued reads behind a look that failed fail too`() async throws {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    let address = try #require(listener.localAddresses.first)
    let client = try await TCPConnection.connect(to: .address(address))
    let server = try await listener.accept()
    let look = Task.immediate { try await client.withBytes(upTo: 4, timeout: nil) { _, _ in } }
    let behind = client.enqueueRead(.exactly(2), timeout: nil)
    try await server.write([1, 2, 3, 4], timeout: nil, progress: nil)
    await #expect(throws: SocketError.self) { try await look.value }
    let error = await #expect(throws: SocketError.self) { try await behind.value }
    #expect(error?.code == .precedingReadFailed)
  }
}
