import ActorSockets
import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

@Suite(.tags(.pure)) struct LinkStateTests {
  private static let millisecond: Int64 = 1_000_000

  /// Sends packets of a size over a link, one each millisecond.
  ///
  /// - Returns: How long each took, in nanoseconds; `nil` for those that were lost.
  private func delays(_ link: NetworkLink, count: Int, size: Int = 100, seed: UInt64 = 1) -> [Int64?] {
    var (state, random) = (LinkState(), SplitMix(seed: seed))
    return (0..<Int64(count)).map { number in
      let now = number * Self.millisecond
      return state.send(size, over: link, at: now, &random).map { $0 - now }
    }
  }

  private func draws(_ latency: NetworkLink.Latency, count: Int = 10_000) -> [Int64] {
    var random = SplitMix(seed: 7)
    return (0..<count).map { _ in latency.draw(&random) }
  }

  private func mean(_ values: [Int64]) -> Double { values.reduce(0) { $0 + Double($1) } / Double(values.count) }

  @Test func `Without a bandwidth packets do not wait for each other`() {
    var (state, random) = (LinkState(), SplitMix(seed: 1))
    let link = NetworkLink(latency: .fixed(.milliseconds(3)))
    for _ in 0..<10 { #expect(state.send(65_535, over: link, at: 5, &random) == 3 * Self.millisecond + 5) }
  }

  @Test func `A link carries the bits of its bandwidth, one packet after the other, and has no credit for idle time`() {
    let link = NetworkLink(latency: .fixed(.milliseconds(3)), bandwidth: 8_000_000)
    var (state, random) = (LinkState(), SplitMix(seed: 1))
    // A thousand bytes take a millisecond.
    for number in 1...10 as ClosedRange<Int64> {
      #expect(state.send(1_000, over: link, at: 0, &random) == (number + 3) * Self.millisecond)
    }
    for number in 1...3 as ClosedRange<Int64> {
      #expect(
        state.send(1_000, over: link, at: 100 * Self.millisecond, &random) == (100 + number + 3) * Self.millisecond)
    }
  }

  @Test(arguments: [0, 0.1, 0.5, 1])
  func `The share of lost packets is that of the link`(loss: Double) {
    let lost = delays(NetworkLink(loss: loss), count: 10_000).count { $0 == nil }
    #expect(abs(Double(lost) / 10_000 - loss) < 0.02)
    if loss == 0 || loss == 1 { #expect(lost == Int(loss) * 10_000) }
  }

  @Test func `A link that is cut carries nothing, and continues as if it had`() {
    var link = NetworkLink(latency: .uniform(.milliseconds(1), .milliseconds(9)), loss: 0.3)
    let whole = delays(link, count: 200)
    var (state, random) = (LinkState(), SplitMix(seed: 1))
    for number in 0..<200 as Range<Int64> {
      link.isCut = (50..<100).contains(number)
      let now = number * Self.millisecond
      let delay = state.send(100, over: link, at: now, &random).map { $0 - now }
      if link.isCut { #expect(delay == nil) }
      if number < 50 || number >= 110 { #expect(delay == whole[Int(number)]) }
    }
  }

  @Test func `No packet waits for one that was lost`() {
    var (state, random) = (LinkState(), SplitMix(seed: 1))
    #expect(state.send(100, over: NetworkLink(latency: .fixed(.seconds(9)), loss: 1), at: 0, &random) == nil)
    #expect(
      state.send(100, over: NetworkLink(latency: .fixed(.milliseconds(3))), at: 0, &random) == 3 * Self.millisecond)
  }

  @Test func `A packet for which the queue has no room is lost, and the others do not wait for it`() {
    let link = NetworkLink(latency: .fixed(.milliseconds(3)), bandwidth: 8_000_000, queue: 3_500)
    var (state, random) = (LinkState(), SplitMix(seed: 1))
    // A thousand bytes take a millisecond. The bytes on the wire count until they are sent.
    let arrivals = (0..<6).map { _ in state.send(1_000, over: link, at: 0, &random) }
    #expect(arrivals == [4, 5, 6, nil, nil, nil].map { (number: Int64?) in number.map { $0 * Self.millisecond } })
    #expect(state.send(500, over: link, at: 0, &random) == 6_500_000)
    #expect(state.send(1_000, over: link, at: Self.millisecond, &random) == 7_500_000)
    // A packet larger than the queue is sent if it need not wait.
    #expect(state.send(10_000, over: link, at: 100 * Self.millisecond, &random) == 113 * Self.millisecond)
  }

  @Test func `No connection waits for the packets of another one`() {
    var (state, random) = (LinkState(), SplitMix(seed: 1))
    let (slow, quick) = (NetworkLink(latency: .fixed(.seconds(9))), NetworkLink(latency: .fixed(.milliseconds(3))))
    let (one, other) = (Packet(segmentOf: 100, port: 1), Packet(segmentOf: 100, port: 2))
    #expect(state.send(one, over: slow, at: 0, &random).arrivals == [9_000 * Self.millisecond])
    #expect(state.send(other, over: quick, at: 0, &random).arrivals == [3 * Self.millisecond])
    #expect(state.send(one, over: quick, at: 0, &random).arrivals == [9_000 * Self.millisecond])
    #expect(state.send(other, over: quick, at: 1, &random).arrivals == [3 * Self.millisecond + 1])
  }

  @Test func `A link forgets connections whose packets have arrived`() {
    var (state, random) = (LinkState(), SplitMix(seed: 1))
    let link = NetworkLink(latency: .fixed(.milliseconds(10)))
    for number in 0..<60_000 as Range<Int64> {
      let packet = Packet(segmentOf: 100, port: UInt16(number))
      _ = state.send(packet, over: link, at: number * Self.millisecond, &random)
      #expect(state.connections < 50)
    }
    // Those on their way stay.
    for port in 1...1_000 as ClosedRange<UInt16> {
      _ = state.send(Packet(segmentOf: 100, port: port), over: link, at: 0, &random)
    }
    #expect(state.connections >= 1_000)
  }

  @Test func `Packets arrive in the order in which they were sent`() {
    let link = NetworkLink(latency: .uniform(.zero, .seconds(1)), loss: 0.2)
    let arrivals = delays(link, count: 2_000).enumerated().compactMap { number, delay in
      delay.map { Int64(number) * Self.millisecond + $0 }
    }
    #expect(arrivals == arrivals.sorted())
    #expect(Set(arrivals).count > 50)
  }

  @Test func `Equal seeds give equal results, and others do not`() {
    let link = NetworkLink(latency: .heavyTail(minimum: .milliseconds(5), shape: 1.5), bandwidth: 1_000_000, loss: 0.1)
    #expect(delays(link, count: 500, seed: 3) == delays(link, count: 500, seed: 3))
    #expect(delays(link, count: 500, seed: 3) != delays(link, count: 500, seed: 4))
  }

  @Test func `Another setting of a link leaves the fate of most packets as it was`() {
    let before = delays(NetworkLink(loss: 0.2), count: 1_000)
    let after = delays(NetworkLink(latency: .uniform(.zero, .seconds(1)), loss: 0.2), count: 1_000)
    #expect(before.map { $0 == nil } == after.map { $0 == nil })
    // Packets that are still carried take the same time. Here none waits for another one.
    let quick = NetworkLink.Latency.uniform(.zero, .microseconds(900))
    let carried = delays(NetworkLink(latency: quick), count: 1_000)
    let fewer = delays(NetworkLink(latency: quick, loss: 0.5), count: 1_000)
    #expect(zip(carried, fewer).allSatisfy { $1 == nil || $0 == $1 })
  }

  // MARK: Distributions

  @Test func `A fixed latency is always the same, and never negative`() {
    #expect(Set(draws(.fixed(.milliseconds(4)), count: 100)) == [4 * Self.millisecond])
    #expect(Set(draws(.fixed(.milliseconds(-4)), count: 100)) == [0])
  }

  @Test func `A uniform latency lies between its limits, with the mean in the middle`() {
    let values = draws(.uniform(.milliseconds(20), .milliseconds(60)))
    let limits = (20 * Self.millisecond)...(60 * Self.millisecond)
    #expect(values.allSatisfy { limits.contains($0) })
    #expect(abs(mean(values) / Double(Self.millisecond) - 40) < 1)
    #expect((values.min() ?? 0) < 21 * Self.millisecond && (values.max() ?? 0) > 59 * Self.millisecond)
    // Limits in the wrong order mean the first.
    #expect(Set(draws(.uniform(.milliseconds(9), .milliseconds(4)), count: 100)) == [9 * Self.millisecond])
  }

  @Test func `A normal latency has its mean and deviation, and is never negative`() {
    let values = draws(.normal(mean: .milliseconds(50), deviation: .milliseconds(10)))
    let mean = mean(values)
    let variance = values.reduce(0) { $0 + (Double($1) - mean) * (Double($1) - mean) } / Double(values.count)
    #expect(abs(mean / Double(Self.millisecond) - 50) < 0.5)
    #expect(abs(variance.squareRoot() / Double(Self.millisecond) - 10) < 0.5)
    let cut = draws(.normal(mean: .zero, deviation: .milliseconds(10)))
    #expect(cut.min() == 0 && (cut.max() ?? 0) > 20 * Self.millisecond)
  }

  @Test func `A heavy tail begins at its minimum, and has the mean of a Pareto distribution`() {
    let values = draws(.heavyTail(minimum: .milliseconds(10), shape: 3), count: 40_000)
    #expect((values.min() ?? 0) >= 10 * Self.millisecond && (values.min() ?? 0) < 10_100_000)
    #expect(abs(mean(values) / Double(Self.millisecond) - 15) < 0.5)
    let heavy = draws(.heavyTail(minimum: .milliseconds(10), shape: 0.1), count: 40_000)
    // A shape below 1 counts as 1, and the tail ends at a thousand times the minimum.
    #expect(heavy.max() == 10_000 * Self.millisecond)
    // A quarter of a Pareto distribution with the shape 1 is above four times its minimum.
    #expect(abs(Double(heavy.count { $0 > 40 * Self.millisecond }) / 40_000 - 0.25) < 0.01)
  }

  @Test(arguments: [
    NetworkLink.Latency.fixed(.seconds(Int64.max)), .uniform(.zero, .seconds(Int64.max)),
    .normal(mean: .seconds(Int64.max), deviation: .seconds(Int64.max)),
    .heavyTail(minimum: .seconds(Int64.max), shape: 1), .heavyTail(minimum: .milliseconds(1), shape: .nan),
  ])
  func `Settings without sense do not stop the program`(latency: NetworkLink.Latency) {
    for bandwidth in [nil, 0, -1, Int.max] {
      _ = delays(NetworkLink(latency: latency, bandwidth: bandwidth, loss: .nan), count: 1_000, size: 65_535)
    }
  }

  // MARK: Datagrams

  /// Sends datagrams over a link, one each millisecond. Returns when each arrived, in nanoseconds.
  private func arrivals(_ link: NetworkLink, count: Int = 10_000, size: Int = 100) -> [[Int64]] {
    var (state, random) = (LinkState(), SplitMix(seed: 1))
    return (0..<Int64(count)).map {
      state.send(Packet(datagramOf: size), over: link, at: $0 * Self.millisecond, &random).arrivals
    }
  }

  @Test(arguments: [0, 0.1, 1])
  func `The share of doubled datagrams is that of the link`(share: Double) {
    let copies = arrivals(NetworkLink(duplication: share)).count { $0.count == 2 }
    #expect(abs(Double(copies) / 10_000 - share) < 0.02)
    #expect(arrivals(NetworkLink(loss: 1, duplication: share)).allSatisfy { $0.isEmpty })
  }

  @Test(arguments: [0, 0.1, 1])
  func `The share of late datagrams is that of the link`(share: Double) {
    let link = NetworkLink(latency: .fixed(.milliseconds(5)), reordering: share)
    let delays = arrivals(link).enumerated().flatMap { number, times in
      times.map { $0 - Int64(number) * Self.millisecond }
    }
    let late = delays.count { $0 != 5 * Self.millisecond }
    #expect(abs(Double(late) / 10_000 - share) < 0.02)
    #expect(delays.allSatisfy { (5...30 * Self.millisecond).contains($0) })
  }

  @Test func `With latencies that vary, datagrams overtake each other`() {
    let times = arrivals(NetworkLink(latency: .uniform(.zero, .milliseconds(50)))).flatMap { $0 }
    #expect(times.count == 10_000 && times != times.sorted())
  }

  @Test(
    arguments: [
      (true, 0, 1), (true, 1_472, 1), (true, 1_473, 2), (true, 2_952, 2), (true, 2_953, 3), (true, 65_507, 45),
      (false, 1_452, 1), (false, 1_453, 2), (false, 2_888, 2), (false, 2_889, 3),
    ] as [(Bool, Int, Int)])
  func `A datagram that fits into a packet is one packet, and others are divided as by Linux`(
    isIPv4: Bool, count: Int, fragments: Int
  ) {
    let address = isIPv4 ? SocketAddress.ipv4(.loopback, port: 1) : .ipv6(.loopback, port: 1)
    let datagram = UDPDatagram(bytes: [UInt8](repeating: 0, count: count))
    let packet = Packet(source: address, destination: address, content: .datagram(datagram))
    let survival = NetworkLink(loss: 0.5, mtu: 1_500).survival(of: packet)
    let expected = (0..<fragments).reduce(1.0) { fraction, _ in fraction / 2 }
    #expect(survival == expected)
  }

  @Test func `A datagram longer than a packet is lost with any of its fragments`() {
    let lost = arrivals(NetworkLink(loss: 0.1), size: 10_000).count { $0.isEmpty }
    // Seven fragments.
    #expect(abs(Double(lost) / 10_000 - 0.52) < 0.03)
  }
}

extension Packet {
  fileprivate static let ends = (SocketAddress.ipv4(.loopback, port: 1), SocketAddress.ipv4(.loopback, port: 2))

  /// A packet of a stream with a size, which includes the headers, from a port.
  fileprivate init(segmentOf size: Int, port: UInt16 = 1) {
    let bytes = [UInt8](repeating: 0, count: size - 40)
    self.init(
      source: .ipv4(.loopback, port: port), destination: Self.ends.1, content: .segment(Segment(bytes: bytes)))
  }

  /// A datagram with a size, which includes the headers.
  fileprivate init(datagramOf size: Int) {
    let bytes = [UInt8](repeating: 0, count: size - 28)
    self.init(source: Self.ends.0, destination: Self.ends.1, content: .datagram(UDPDatagram(bytes: bytes)))
  }
}

extension LinkState {
  /// - Returns: When it arrives; `nil` if it is lost.
  fileprivate mutating func send(
    _ size: Int, over link: NetworkLink, at now: Int64, _ random: inout SplitMix
  ) -> Int64? {
    send(Packet(segmentOf: size), over: link, at: now, &random).arrivals.first
  }
}
