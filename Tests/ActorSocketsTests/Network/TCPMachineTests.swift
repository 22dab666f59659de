import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

@Suite(.tags(.pure)) struct TCPMachineTests {
  private static let second = TCPMachine.second
  private static let millisecond = TCPMachine.second / 1_000

  /// Lets time pass until a machine waits for nothing more. Returns when something happened, and the segments that were sent.
  private func waitAlone(_ machine: inout TCPMachine, atMost most: Int = 100) -> [(time: Int64, sent: [Segment])] {
    var events: [(time: Int64, sent: [Segment])] = []
    while let time = machine.nextTimer, events.count < most {
      machine.timeHasCome(time)
      events.append((time, machine.effects.segments))
      machine.effects = TCPMachine.Effects()
    }
    return events
  }

  /// Two machines that are connected, with a round trip of a millisecond.
  private func connected(_ prepare: (inout TCPMachine) -> Void = { _ in }) -> (TCPMachine, TCPMachine) {
    var (client, server) = (TCPMachine(), TCPMachine())
    prepare(&client)
    prepare(&server)
    client.connect(at: 0)
    for segment in client.effects.segments { server.accept(segment, at: 0) }
    client.effects = TCPMachine.Effects()
    for segment in server.effects.segments { client.receive(segment, at: Self.millisecond) }
    server.effects = TCPMachine.Effects()
    exchange(&client, &server, at: Self.millisecond)
    (client.effects, server.effects) = (TCPMachine.Effects(), TCPMachine.Effects())
    return (client, server)
  }

  private func send(_ count: Int, from machine: inout TCPMachine, at now: Int64) -> Int {
    machine.send([UInt8](repeating: 1, count: count).span, at: now)
  }

  private func read(_ count: Int, from machine: inout TCPMachine) {
    machine.programReceived(count, at: machine.now)
  }

  // MARK: Giving up

  @Test func `An attempt to connect is given up after 131 seconds and eleven segments`() {
    var machine = TCPMachine()
    machine.connect(at: 0)
    #expect(machine.effects.segments.map(\.isSyn) == [true])
    machine.effects = TCPMachine.Effects()
    let events = waitAlone(&machine)
    #expect(events.map(\.time) == [1, 2, 3, 4, 5, 7, 11, 19, 35, 67, 131].map { $0 * Self.second })
    #expect(events.map(\.sent.count) == Array(repeating: 1, count: 10) + [0])
    #expect(machine.state == .closed && machine.takeError() == Errno.timedOut)
    #expect(machine.readiness.contains(.hangUp))
  }

  @Test func `An answer to an attempt to connect is given up after 63 seconds`() {
    var machine = TCPMachine()
    machine.accept(Segment(isSyn: true, window: 1_000), at: 0)
    machine.effects = TCPMachine.Effects()
    #expect(waitAlone(&machine).map(\.time) == [1, 3, 7, 15, 31, 63].map { $0 * Self.second })
    #expect(machine.state == .closed)
  }

  @Test func `Bytes that stay unacknowledged are given up after 15 repairs`() {
    var (client, _) = connected()
    #expect(send(10, from: &client, at: Self.second) == 10)
    client.effects = TCPMachine.Effects()
    let events = waitAlone(&client)
    // The first wait is the round trip and 200 milliseconds. After a probe of the tail it doubles, up to two minutes.
    var (time, wait) = (Self.second + 201 * Self.millisecond, 201 * Self.millisecond)
    let times = (0..<16).map { _ in
      time += wait
      wait = min(2 * wait, 120 * Self.second)
      return time
    }
    #expect(events.map(\.time) == [Self.second + 201 * Self.millisecond] + times)
    #expect(events.map(\.sent.count) == Array(repeating: 1, count: 16) + [0])
    #expect(client.state == .closed && client.takeError() == Errno.timedOut)
    #expect(client.effects.segments.isEmpty)
  }

  @Test(arguments: [7_000, 250, 60_000] as [Int64])
  func `With a user timeout bytes are given up exactly then`(timeout: Int64) {
    var (client, _) = connected { $0.liveness.userTimeout = timeout * Self.millisecond }
    _ = send(10, from: &client, at: Self.second)
    client.effects = TCPMachine.Effects()
    let events = waitAlone(&client)
    #expect(events.last?.time == Self.second + timeout * Self.millisecond)
    #expect(client.takeError() == Errno.timedOut)
  }

  @Test func `A longer user timeout does not prolong an attempt to connect, and a shorter one ends it`() {
    for (timeout, end) in [(3_600, 131), (10, 10)] as [(Int64, Int64)] {
      var machine = TCPMachine()
      machine.liveness.userTimeout = timeout * Self.second
      machine.connect(at: 0)
      #expect(waitAlone(&machine).last?.time == end * Self.second)
      #expect(machine.takeError() == Errno.timedOut)
    }
  }

  // MARK: Keep-alive

  @Test func `A silent peer is probed after the idle time, and given up after the probes`() {
    var (client, _) = connected()
    client.liveness.keepAlive = .init(idle: 60 * Self.second, interval: 10 * Self.second, count: 6)
    let events = waitAlone(&client)
    #expect(events.map { $0.time - Self.millisecond } == [60, 70, 80, 90, 100, 110, 120].map { $0 * Self.second })
    let old = client.sending.next - 1
    #expect(events.dropLast().allSatisfy { $0.sent.map(\.length) == [0] && $0.sent[0].sequence == old })
    #expect(events.last?.sent.map(\.isReset) == [true])
    #expect(client.takeError() == Errno.timedOut)
  }

  @Test func `A peer that answers probes is probed again after the idle time`() {
    var (client, server) = connected()
    client.liveness.keepAlive = .init(idle: 60 * Self.second, interval: 10 * Self.second, count: 1)
    for round in 1...5 as ClosedRange<Int64> {
      #expect(client.nextTimer == Self.millisecond + round * 60 * Self.second)
      client.timeHasCome(client.nextTimer ?? 0)
      exchange(&client, &server, at: Self.millisecond + round * 60 * Self.second)
    }
    #expect(client.state == .established && client.error == 0)
  }

  // MARK: Windows

  @Test func `A closed window is probed for as long as the peer answers, and opens when its program reads`() {
    var (client, server) = connected { $0.receiving.bufferSize = 10_000 }
    #expect(send(25_000, from: &client, at: Self.second) == 25_000)
    exchange(&client, &server, at: Self.second)
    #expect(server.receiving.bytes.count == 10_000 && client.sending.bytes.count == 15_000)
    #expect(client.sending.next == client.sending.limit)
    for _ in 0..<200 {
      guard let time = client.nextTimer else { break }
      client.timeHasCome(time)
      #expect(client.effects.segments.map(\.length) == [0])
      exchange(&client, &server, at: time)
    }
    #expect(client.state == .established && (client.nextTimer ?? 0) > 5 * 3_600 * Self.second)
    let end = client.nextTimer ?? 0
    for expected in [10_000, 5_000, 0] {
      read(server.receiving.bytes.count, from: &server)
      exchange(&client, &server, at: end)
      #expect(server.receiving.bytes.count == expected)
    }
    #expect(client.sending.bytes.isEmpty && client.nextTimer == nil)
  }

  @Test func `A lost opening of a window is found by the next probe`() {
    var (client, server) = connected { $0.receiving.bufferSize = 10_000 }
    _ = send(12_000, from: &client, at: Self.second)
    exchange(&client, &server, at: Self.second)
    read(10_000, from: &server)
    #expect(server.effects.segments.count == 1)
    server.effects = TCPMachine.Effects()
    let time = client.nextTimer ?? 0
    #expect(time == Self.second + client.repair.roundTrip.timeout)
    client.timeHasCome(time)
    exchange(&client, &server, at: time)
    #expect(server.receiving.bytes.count == 2_000)
  }

  @Test func `A peer whose window is closed is given up when it does not answer`() {
    var (client, server) = connected { $0.receiving.bufferSize = 10_000 }
    _ = send(20_000, from: &client, at: Self.second)
    exchange(&client, &server, at: Self.second)
    #expect(waitAlone(&client).count == 16)
    #expect(client.takeError() == Errno.timedOut)
  }

  @Test func `A peer with a closed window that fell silent gets as many probes as if it had never answered`() {
    var (client, server) = connected { $0.receiving.bufferSize = 10_000 }
    _ = send(20_000, from: &client, at: Self.second)
    exchange(&client, &server, at: Self.second)
    for _ in 0..<50 {
      let time = client.nextTimer ?? 0
      client.timeHasCome(time)
      exchange(&client, &server, at: time)
    }
    let heard = client.liveness.heardAt
    let events = waitAlone(&client)
    #expect(events.map(\.time) == (1...16).map { heard + $0 * 120 * Self.second })
    #expect(client.takeError() == Errno.timedOut)
  }

  @Test func `A user timeout ends a connection whose window stays closed, even if the peer answers`() {
    var (client, server) = connected {
      $0.receiving.bufferSize = 10_000
      $0.liveness.userTimeout = 30 * Self.second
    }
    _ = send(20_000, from: &client, at: Self.second)
    exchange(&client, &server, at: Self.second)
    var time: Int64 = 0
    while let next = client.nextTimer {
      time = next
      client.timeHasCome(time)
      exchange(&client, &server, at: time)
    }
    #expect(time == 31 * Self.second && client.takeError() == Errno.timedOut)
  }

  // MARK: Buffers

  @Test func `Nothing can be sent when the buffer has shrunk, except nothing, and a larger one wakes the program`() {
    var (client, server) = connected { $0.receiving.bufferSize = 10_000 }
    #expect(send(20_000, from: &client, at: Self.second) == 20_000)
    exchange(&client, &server, at: Self.second)
    client.effects = TCPMachine.Effects()
    client.setSendBuffer(5_000)
    #expect(send(0, from: &client, at: Self.second) == 0)
    #expect(send(1, from: &client, at: Self.second) == -Int(Errno.wouldBlock))
    client.setSendBuffer(10_001)
    #expect(client.effects.wakes.isEmpty)
    client.setSendBuffer(15_000)
    #expect(client.effects.wakes.map(\.rawValue) == [Readiness.writable.rawValue])
    client.setSendBuffer(30_000)
    #expect(client.effects.wakes.count == 1)
  }

  // MARK: Repairs

  @Test func `Three equal acknowledgements repair a loss at once`() {
    var (client, server) = connected()
    _ = send(5 * client.sending.segmentSize, from: &client, at: Self.second)
    let segments = client.effects.segments
    client.effects = TCPMachine.Effects()
    #expect(segments.count == 5)
    let arrival = Self.second + Self.millisecond
    for (number, segment) in segments.dropFirst().enumerated() {
      server.receive(segment, at: arrival)
      for answer in server.effects.segments { client.receive(answer, at: arrival) }
      server.effects = TCPMachine.Effects()
      #expect(client.effects.segments.isEmpty == (number < 2), "after \(number + 1)")
      if number == 2, let again = client.effects.segments.first {
        #expect(again.isRepeated && again.sequence == segments[0].sequence && again.bytes == segments[0].bytes)
      }
    }
    #expect(client.effects.segments.count == 1, "one repair is enough")
    exchange(&client, &server, at: arrival)
    #expect(server.receiving.bytes.count == 5 * client.sending.segmentSize && client.nextTimer == nil)
  }

  @Test func `Two losses in one window are repaired without a timer`() {
    var (client, server) = connected()
    _ = send(8 * client.sending.segmentSize, from: &client, at: Self.second)
    let segments = client.effects.segments
    client.effects = TCPMachine.Effects()
    for segment in [1, 2, 4, 5, 6, 7].map({ segments[$0] }) { server.receive(segment, at: Self.second) }
    exchange(&client, &server, at: Self.second)
    #expect(server.receiving.bytes.count == 8 * client.sending.segmentSize)
  }

  @Test func `Segments that arrive in any order, and some twice, need no repair`() {
    var random = SeededRandom(seed: 1)
    for _ in 0..<50 {
      var (client, server) = connected()
      _ = send(6 * client.sending.segmentSize, from: &client, at: Self.second)
      client.finish(at: Self.second)
      let segments = client.effects.segments
      for segment in (segments + segments.prefix(3)).shuffled(using: &random) {
        server.receive(segment, at: Self.second)
        #expect(server.receiving.bytes.count <= server.receiving.bufferSize)
      }
      #expect(server.receiving.bytes.count == 6 * client.sending.segmentSize)
      #expect(server.receiving.isDone && server.receiving.early.isEmpty)
    }
  }

  // MARK: Resets

  @Test func `A reset that fits ends a connection, and another one does not`() {
    for (finishes, error) in [(false, Errno.connectionReset), (true, Errno.brokenPipe)] {
      var (client, server) = connected()
      if finishes { server.finish(at: Self.second) }
      exchange(&client, &server, at: Self.second)
      client.effects = TCPMachine.Effects()
      client.receive(Segment(isReset: true, sequence: client.receiving.expected - 1), at: Self.second)
      client.receive(Segment(isReset: true, sequence: client.receiving.expected + 1), at: Self.second)
      #expect(client.state != .closed)
      // The second may have overtaken something. The answer tells the peer which reset would fit.
      #expect(client.effects.segments.map(\.acknowledged) == [client.receiving.expected])
      client.effects = TCPMachine.Effects()
      client.receive(Segment(isReset: true, sequence: client.receiving.expected), at: Self.second)
      #expect(client.state == .closed && client.nextTimer == nil)
      #expect(client.takeError() == error)
      #expect(client.effects.wakes.contains { $0.rawValue == TCPMachine.everyEvent.rawValue })
    }
  }

  @Test func `Closing with unread bytes resets the peer`() {
    var (client, server) = connected()
    _ = send(10, from: &client, at: Self.second)
    exchange(&client, &server, at: Self.second)
    server.close(discards: false, at: Self.second)
    exchange(&client, &server, at: Self.second)
    #expect(client.state == .closed && server.state == .closed)
    #expect(client.takeError() == Errno.connectionReset)
  }

  @Test func `An attempt to connect resets what the peer remembers of an earlier connection`() {
    for bytes in [0, 100] {
      var (old, server) = connected()
      _ = send(bytes, from: &old, at: Self.second)
      exchange(&old, &server, at: Self.second)
      // The client's host starts anew, and uses the same port.
      var client = TCPMachine()
      client.connect(at: 2 * Self.second)
      exchange(&client, &server, at: 2 * Self.second)
      #expect(server.state == .closed && server.error == Errno.connectionReset)
      #expect(client.state == .synSent && client.nextTimer == 3 * Self.second)
    }
  }

  // MARK: Ends

  @Test func `A repeated segment with a new end does not reset a connection whose program has closed it`() {
    var (client, server) = connected()
    _ = send(10, from: &client, at: Self.second)
    for segment in client.effects.segments { server.receive(segment, at: Self.second) }
    client.effects = TCPMachine.Effects()
    // The acknowledgements are lost.
    server.effects = TCPMachine.Effects()
    read(10, from: &server)
    server.close(discards: false, at: Self.second)
    server.effects = TCPMachine.Effects()
    client.finish(at: Self.second)
    client.effects = TCPMachine.Effects()
    // The probe of the tail is only the end, and is lost, too.
    client.timeHasCome(client.nextTimer ?? 0)
    #expect(client.effects.segments.map(\.length) == [1] && client.effects.segments[0].isFin)
    client.effects = TCPMachine.Effects()
    let time = client.nextTimer ?? 0
    client.timeHasCome(time)
    #expect(client.effects.segments.map(\.bytes.count) == [10] && client.effects.segments[0].isFin)
    exchange(&client, &server, at: time)
    if let repair = server.nextTimer { server.timeHasCome(repair) }
    exchange(&client, &server, at: 2 * Self.second)
    #expect(client.error == 0 && client.receiving.isDone && client.state == .timeWait)
  }

  @Test func `A closed socket waits a minute for its peer's end`() {
    var (client, server) = connected()
    client.close(discards: false, at: Self.second)
    exchange(&client, &server, at: Self.second)
    #expect(client.state == .finWait2 && client.nextTimer == 61 * Self.second)
    var other = client
    other.timeHasCome(61 * Self.second)
    #expect(other.state == .closed && other.nextTimer == nil && other.effects.segments.isEmpty)
    server.finish(at: 60 * Self.second)
    exchange(&client, &server, at: 60 * Self.second)
    #expect(client.state == .timeWait && server.state == .closed && client.nextTimer == nil && server.nextTimer == nil)
  }

  // MARK: Two machines that connect to each other at the same time

  private func crossed() -> (TCPMachine, TCPMachine) {
    var (one, other) = (TCPMachine(), TCPMachine())
    one.connect(at: 0)
    other.connect(at: 0)
    let (fromOne, fromOther) = (one.effects.segments, other.effects.segments)
    (one.effects, other.effects) = (TCPMachine.Effects(), TCPMachine.Effects())
    for segment in fromOne { other.receive(segment, at: 0) }
    for segment in fromOther { one.receive(segment, at: 0) }
    return (one, other)
  }

  @Test func `Both are connected, also when one answer is lost`() {
    for isLost in [false, true] {
      var (one, other) = crossed()
      #expect(one.state == .synReceived && other.state == .synReceived)
      if isLost { one.effects = TCPMachine.Effects() }
      exchange(&one, &other, at: Self.second)
      if let time = other.nextTimer { other.timeHasCome(time) }
      exchange(&one, &other, at: Self.second)
      #expect(one.state == .established && other.state == .established)
      #expect(one.nextTimer == nil && other.nextTimer == nil)
    }
  }

  @Test func `A reset is reported to the program that connects`() {
    var (one, _) = crossed()
    one.effects = TCPMachine.Effects()
    one.receive(Segment(isReset: true, sequence: 1), at: Self.second)
    #expect(one.state == .closed && one.error == Errno.connectionReset && one.nextTimer == nil)
    #expect(!one.effects.wakes.isEmpty)
  }

  @Test func `Silence is reported to the program that connects`() {
    var (one, _) = crossed()
    one.effects = TCPMachine.Effects()
    while let time = one.nextTimer { one.timeHasCome(time) }
    #expect(one.state == .closed && one.error == Errno.timedOut && !one.effects.wakes.isEmpty)
  }

  @Test func `A program that finishes before the connection is up ends it afterwards`() {
    var (one, other) = crossed()
    one.finish(at: 0)
    exchange(&one, &other, at: Self.second)
    #expect(one.state == .finWait2 && other.state == .closeWait && other.receiving.isDone)
  }

  @Test func `An end that follows the opening at once is sent again if it is lost`() {
    var (one, other) = crossed()
    one.finish(at: 0)
    let answers = (one.effects.segments, other.effects.segments)
    (one.effects, other.effects) = (TCPMachine.Effects(), TCPMachine.Effects())
    for segment in answers.1 { one.receive(segment, at: Self.second) }
    for segment in answers.0 { other.receive(segment, at: Self.second) }
    #expect(one.effects.segments.contains(where: \.isFin) && one.repair.recovery.board.count == 1)
    one.effects = TCPMachine.Effects()
    exchange(&one, &other, at: Self.second)
    if let time = one.nextTimer { one.timeHasCome(time) }
    exchange(&one, &other, at: 3 * Self.second)
    #expect(one.state == .finWait2 && other.state == .closeWait && other.receiving.isDone)
  }
}
