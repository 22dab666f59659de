import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

/// How long transfers take, and with how many segments. The expected numbers are those of Linux, which `make realism` compares.
@Suite(.tags(.singleThread, .pure)) struct TCPPathTests {
  private static let millisecond = MachinePath.millisecond

  /// Sends bytes over a path. Returns the path afterwards, and how long it took from the start of the connection.
  private func transfer(
    _ count: Int, over path: MachinePath, _ prepare: (inout TCPMachine) -> Void = { _ in }
  ) -> (path: MachinePath, time: Int64) {
    var path = path
    for end in 0...1 { prepare(&path.machines[end]) }
    path.connect()
    let start = path.now
    path.send(count)
    let isDone = path.run { $0.taken == count }
    #expect(isDone, "\(path.taken) of \(count) bytes have arrived")
    return (path, path.now - start)
  }

  @Test func `A long path without a limit is filled by slow start and windows that grow`() {
    let (path, time) = transfer(10_000_000, over: MachinePath(delay: 50))
    // Ten segments, then twice as many each round trip: ten round trips and the last way.
    #expect((900...1_200 * Self.millisecond).contains(time))
    #expect(path.repeated == [0, 0])
    #expect(path.machines[1].receiving.bufferSize > 1_000_000 && path.machines[0].sending.bufferSize > 1_000_000)
  }

  @Test func `Buffers whose sizes the program has set do not grow, and limit a long path`() {
    let (path, time) = transfer(1_000_000, over: MachinePath(delay: 50)) {
      $0.receiving.bufferSize = 50_000
      $0.setSendBuffer(200_000)
    }
    #expect(path.machines[1].receiving.bufferSize == 50_000 && path.machines[0].sending.bufferSize == 200_000)
    // A window each round trip.
    #expect((2_000...2_400 * Self.millisecond).contains(time))
  }

  @Test func `On a slow link almost no segment is sent again`() {
    let (path, time) = transfer(200_000, over: MachinePath(delay: 50, rate: 56_000))
    #expect(path.sent[0] < 150 && path.repeated[0] <= 3)
    // 1,500 bytes carry 1,448.
    #expect(time < 31 * TCPMachine.second)
  }

  @Test(arguments: [TCPCongestion.Algorithm.cubic, .reno])
  func `A link with a queue is filled, and each segment that it drops is sent again once`(
    algorithm: TCPCongestion.Algorithm
  ) {
    let (path, time) = transfer(10_000_000, over: MachinePath(delay: 10, rate: 8_000_000, queue: 64_000)) {
      $0.repair.recovery.congestion.algorithm = algorithm
    }
    #expect(time < 11 * TCPMachine.second)
    #expect(path.lost[0] > 0 && path.repeated[0] == path.lost[0])
  }

  @Test(arguments: 1...20 as ClosedRange<UInt64>)
  func `Random losses are repaired without needless repetitions`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    let losses = Set((0..<1_000).filter { _ in random.below(40) == 0 })
    var path = MachinePath(delay: 10)
    path.loses = { _, end, number in end == 0 && number > 5 && losses.contains(number) }
    let (after, _) = transfer(1_000_000, over: path)
    #expect(after.repeated[0] >= after.lost[0])
    // A repetition that was lost may need a timer, which repeats more than what is missing.
    #expect(after.repeated[0] <= after.lost[0] + 4, "\(after.lost[0]) were lost")
  }

  @Test func `A lost tail is probed after two round trips, before the timeout`() {
    var path = MachinePath(delay: 50)
    path.machines[0].sending.isEager = true
    path.connect()
    path.send(5 * 1_448)
    path.run { $0.taken == 5 * 1_448 }
    let start = path.now
    let tail = path.machines[0].sending.next + 3 * 1_448
    path.loses = { segment, end, _ in end == 0 && segment.sequence >= tail && !segment.isRepeated }
    path.send(5 * 1_448)
    path.run { $0.repeated[0] == 1 }
    // The segments before the tail are acknowledged after 100 milliseconds. Two round trips and a little follow; the timeout is 300.
    #expect(path.now - start == 302 * Self.millisecond && path.machines[0].repair.retries == 0)
    path.run { $0.taken == 10 * 1_448 }
    #expect(path.repeated[0] == 2 && path.machines[0].repair.retries == 0)
  }

  @Test func `A timer that fired too early does not shrink the window for long`() {
    var path = MachinePath(delay: 10)
    path.connect()
    path.send(300_000)
    path.run { $0.taken == 300_000 }
    path.run(until: path.now + 100 * Self.millisecond)
    let window = path.machines[0].repair.recovery.congestion.window
    // The path is ten times slower for a second, but nothing is lost.
    path.delay = 300 * Self.millisecond
    path.send(100_000)
    path.run(until: path.now + 590 * Self.millisecond) { $0.machines[0].repair.recovery.state == .loss }
    #expect(path.machines[0].repair.recovery.state == .loss)
    #expect(path.machines[0].repair.recovery.congestion.window < window)
    path.run { $0.taken == 400_000 && $0.machines[0].sending.unacknowledged == $0.machines[0].sending.next }
    #expect(path.machines[0].repair.recovery.state != .loss)
    #expect(path.machines[0].repair.recovery.congestion.window >= window)
  }

  @Test func `After a silence of a minute the window is as at the beginning`() {
    var (path, _) = transfer(1_000_000, over: MachinePath(delay: 10))
    #expect(path.machines[0].repair.recovery.congestion.window > 100)
    path.run(until: path.now + 60 * TCPMachine.second)
    let sent = path.sent[0]
    path.send(100_000)
    #expect(path.sent[0] - sent == TCPCongestion.initialWindow)
  }

  @Test func `A program that does not fill the window does not let it grow`() {
    var path = MachinePath(delay: 10)
    path.connect()
    for _ in 0..<200 {
      path.send(1_000)
      path.run(until: path.now + 30 * Self.millisecond)
    }
    #expect(path.machines[0].repair.recovery.congestion.window == TCPCongestion.initialWindow)
  }

  @Test func `After a handshake that was repeated more than once, one segment is sent`() {
    var path = MachinePath(delay: 10)
    path.loses = { segment, _, number in segment.isSyn && number <= 2 }
    path.connect()
    #expect(path.now > 2 * TCPMachine.second)
    let sent = path.sent[0]
    path.send(100_000)
    #expect(path.sent[0] - sent == 1)
  }
}
