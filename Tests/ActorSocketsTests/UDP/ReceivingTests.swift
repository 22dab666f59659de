import ActorSockets
import ActorSocketsTesting
import Glibc
import SocketSystem
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct ReceivingTests {
  @Test func `Several datagrams come at once, and calls in their order`() async throws {
    let (client, server, address) = try DatagramTransport.ipv4.pair()
    let single = Task.immediate { try await server.receive() }
    let several = Task.immediate { try await server.receive(upTo: 10) }
    for number in 0..<3 as Range<UInt8> { try await client.send([number], to: address) }
    var some = [try await single.value.bytes[0]]
    some += try await several.value.map { $0.bytes[0] }
    while some.count < 3 { some += try await server.receive(upTo: 10).map { $0.bytes[0] } }
    #expect(some == [0, 1, 2])
    for number in 0..<100 as Range<UInt8> { try await client.send([number], to: address) }
    #expect(try await server.firstBytes(100, upTo: 100) == Array(0..<100))
  }

  @Test(.inRealTime) func `A call gets its peer's datagram although hundreds of strangers came before`() async throws {
    let (peer, server, address) = try DatagramTransport.ipv4.pair()
    // Each datagram counts with its overhead; the kernel doubles what is set.
    try await server.set(.receiveBufferSize, to: 200_000)
    try await DatagramTransport.ipv4.bind().send((0..<400).map { _ in Datagram([1], to: address) })
    try await peer.send([7], to: address)
    try await server.connect(to: .address(peer.localAddresses[0]))
    var seen: [UInt8] = []
    let count = try await server.withDatagrams { bytes, _ in seen += [bytes[0]] }
    #expect(count == 1 && seen == [7])
    // More than one budget of them was dropped.
    #expect(await server.metrics.datagramsReceived > 256)
  }

  @Test func `Not asking is pausing`() async throws {
    let (client, server, address) = try DatagramTransport.ipv4.pair()
    for number in 0..<100 as Range<UInt8> { try await client.send([number], to: address) }
    #expect(try await server.receive().bytes == [0])
    let metrics = await server.metrics
    #expect(metrics.datagramsReceived == 32 && metrics.fetchedAhead == 31)
    // The reactor looks for events between any two of these calls.
    for _ in 0..<200 { #expect(await server.metrics.datagramsReceived == 32) }
    #expect(try await server.firstBytes(99, upTo: 7) == Array(1..<100))
  }

  @Test(arguments: DatagramTransport.allCases)
  func `A datagram that is too long is cut and says so`(transport: DatagramTransport) async throws {
    let (client, server, address) = try transport.pair {
      $0.maximumReceiveSizeIPv4 = 100
      $0.maximumReceiveSizeIPv6 = 200
    }
    let limit = address.isIPv6 ? 200 : 100
    for length in [limit - 1, limit, limit + 1, 300] {
      try await client.send(pattern(length), to: address)
      let datagram = try await server.receive()
      #expect(datagram.bytes == pattern(min(length, limit)))
      #expect(datagram.isTruncated == (length > limit))
      try await client.send(pattern(length), to: address)
      try await server.withDatagrams { bytes, header in
        #expect(bytes.count == min(length, limit) && header.isTruncated == (length > limit))
      }
    }
    #expect(await server.metrics.datagramsTruncated == 4)
  }

  @Test(arguments: DatagramTransport.allCases)
  func `The largest datagrams pass`(transport: DatagramTransport) async throws {
    let (client, server, address) = try transport.pair {
      $0.maximumReceiveSizeIPv4 = 65_535
      $0.maximumReceiveSizeIPv6 = 65_535
    }
    let limit = transport.isUnix ? 65_535 : address.isIPv6 ? 65_527 : 65_507
    try await client.send(pattern(limit), to: address)
    #expect(try await server.receive().bytes == pattern(limit))
    let error = await expectError(.limitExceeded) { try await client.send(pattern(65_536), to: address) }
    #expect("\(error)".contains("65536"))
    if !transport.isUnix {
      await expectError(.limitExceeded) { try await client.send(pattern(limit + 1), to: address) }
    }
    try await client.send([1], to: address)
    #expect(try await server.receive().bytes == [1])
  }

  @Test(.inRealTime) func `A time-out or a cancellation takes no datagram with it`() async throws {
    let time = ManualTime()
    let (client, server, address) = try DatagramTransport.ipv4.pair(on: time.reactor)
    await expectError(.timedOut) { _ = try await server.receive(timeout: .zero) }
    for timeout in [Timeout.seconds(1), .within(.seconds(1))] {
      let late = Task.immediate { try await server.receive(timeout: timeout) }
      let cancelled = Task.immediate { try await server.receive(upTo: 3) }
      let good = Task.immediate { try await server.receive() }
      await time.advance(by: .seconds(1))
      await expectError(.timedOut) { _ = try await late.value }
      cancelled.cancel()
      await #expect(throws: CancellationError.self) { try await cancelled.value }
      try await client.send([7], to: address)
      #expect(try await good.value.bytes == [7])
    }
    // In the queue, `.after` begins with the turn.
    let first = Task.immediate { try await server.receive() }
    let second = Task.immediate { try await server.receive(timeout: .after(.seconds(1))) }
    await time.advance(by: .seconds(5))
    try await client.send([1], to: address)
    #expect(try await first.value.bytes == [1])
    await time.advance(by: .seconds(1))
    await expectError(.timedOut) { _ = try await second.value }
    // A task that is cancelled already takes nothing.
    try await client.send([2], to: address)
    let never = Task {
      unsafe withUnsafeCurrentTask { unsafe $0?.cancel() }
      return try await server.receive()
    }
    await #expect(throws: CancellationError.self) { try await never.value }
    #expect(try await server.receive(timeout: .seconds(1)).bytes == [2])
  }

  @Test(.inRealTime, .endsInTime(seconds: 120))
  func `Fifty thousand receives that time out in any order leave the datagrams to those that stay`()
    async throws
  {
    // Moved at each one that leaves, it would be about a billion moves of an entry.
    let time = ManualTime()
    let (client, server, address) = try DatagramTransport.ipv4.pair(on: time.reactor)
    var random = SeededRandom(seed: 1)
    let calls = (0..<50_000).map { number in
      let timeout: Timeout? =
        number % 1000 == 500 ? nil : .within(.milliseconds(Int.random(in: 1...50_000, using: &random)))
      return Task.immediate { try await server.receive(timeout: timeout).bytes }
    }
    await time.advance(by: .seconds(50))
    #expect(await server.metrics.pendingReceives == 50)
    for number in 0..<50 as Range<UInt8> { try await client.send([number], to: address) }
    for (number, call) in calls.enumerated() {
      if number % 1000 == 500 {
        #expect(try await call.value == [UInt8(number / 1000)])
      } else {
        await expectError(.timedOut) { _ = try await call.value }
      }
    }
  }

  @Test(.inRealTime) func `A time-out is extended`() async throws {
    let time = ManualTime()
    let (_, server, _) = try DatagramTransport.ipv4.pair(on: time.reactor)
    let asked = Notes<Duration>()
    let receiving = Task.immediate {
      try await server.receive(
        timeout: .after(.seconds(1)) { elapsed, _ in
          asked.add(elapsed)
          return elapsed < .seconds(3) ? .seconds(1) : nil
        })
    }
    await time.advance(by: .seconds(10))
    await expectError(.timedOut) { _ = try await receiving.value }
    #expect(asked.all == [.seconds(1), .seconds(2), .seconds(3)])
  }

  @Test func `Closing ends the loop and the calls, and what was fetched can still be received`() async throws {
    let (client, server, address) = try DatagramTransport.ipv4.pair()
    let looping = Task {
      var count = 0
      for try await _ in server.datagrams { count += 1 }
      return count
    }
    try await server.hasPending(receives: 1)
    await server.close()
    #expect(try await looping.value == 0)
    await expectError(.closed) { _ = try await server.receive() }
    await expectError(.closed) { try await server.send([1], to: address) }
    await server.close()
    #expect(await server.isClosed)

    let other = try UDPEndpoint.bind(to: .address(.ipv4(.loopback, port: 0)))
    for number in 0..<3 as Range<UInt8> { try await client.send([number], to: other.localAddresses[0]) }
    #expect(try await other.receive().bytes == [0])
    await other.close()
    var rest: [UInt8] = []
    for try await datagram in other.datagrams { rest += datagram.bytes }
    #expect(rest == [1, 2])
  }

  @Test func `Datagrams are looked at in place, and what is behind an error is kept`() async throws {
    struct Stop: Error {}
    let (client, server, address) = try DatagramTransport.ipv4.pair()
    for number in 0..<10 as Range<UInt8> { try await client.send([number, number], to: address) }
    var seen: [UInt8] = []
    await #expect(throws: Stop.self) {
      try await server.withDatagrams(upTo: 8) { bytes, header in
        #expect(bytes.count == 2 && header.remoteAddress != nil && !header.isTruncated)
        seen.append(bytes[0])
        if seen.count == 3 { throw Stop() }
      }
    }
    while seen.count < 10 { _ = try await server.withDatagrams { bytes, _ in seen.append(bytes[1]) } }
    #expect(seen == Array(0..<10))
    // One that waits, and calls behind it.
    let looking = Task.immediate {
      var seen: [UInt8] = []
      try await server.withDatagrams(upTo: 1) { bytes, _ in seen.append(bytes[0]) }
      return seen
    }
    let behind = Task.immediate { try await server.receive() }
    try await client.send([20], to: address)
    try await client.send([21], to: address)
    #expect(try await looking.value == [20])
    #expect(try await behind.value.bytes == [21])
    let cancelled = Task.immediate { try await server.withDatagrams { _, _ in } }
    cancelled.cancel()
    await #expect(throws: CancellationError.self) { try await cancelled.value }
    await expectError(.timedOut) { try await server.withDatagrams(timeout: .zero) { _, _ in } }
  }

  @Test func `Datagrams are answered where they are looked at`() async throws {
    let (client, server, address) = try DatagramTransport.ipv4.pair()
    let serving = Task {
      while true {
        try await server.withDatagrams { server, bytes, header in try server.sendNow(bytes, inReplyTo: header) }
      }
    }
    for number in 0..<100 as Range<UInt8> {
      try await client.send([number], to: address)
      #expect(try await client.receive().bytes == [number])
    }
    await server.close()
    await expectError(.closed) { try await serving.value }
  }

  @Test func `Senseless arguments are refused`() async throws {
    let (_, server, address) = try DatagramTransport.ipv4.pair()
    await expectError(.invalidArgument) { _ = try await server.receive(upTo: 0) }
    await expectError(.invalidArgument) { try await server.withDatagrams(upTo: -1) { _, _ in } }
    await expectError(.invalidArgument) { try await server.send([1], to: address.with(port: 0)) }
    await expectError(.notConnected) { try await server.send([1]) }
    await expectError(.familyNotSupported) { try await server.send([1], to: .ipv6(.loopback, port: 9)) }
    for size in [0, -1, 65_536] {
      await expectError(.invalidArgument) {
        _ = try DatagramTransport.dualToIPv6.bind { $0.maximumReceiveSizeIPv6 = size }
      }
    }
  }

  @Test(.inRealTime, .endsInTime(seconds: secondsForRounds))
  func `Many tasks receive, are cancelled and time out, and no datagram is lost or doubled`()
    async throws
  {
    for seed in 0..<UInt64(max(4, rounds / 400)) {
      let (client, server, address) = try (seed % 2 == 0 ? DatagramTransport.ipv4 : .unix).pair()
      let seen = Locked<[Int]>([])
      let total = 400
      let receiving = Task {
        await withTaskGroup(of: Void.self) { group in
          for lane in 0..<4 as Range<UInt64> {
            group.addTask {
              var random = SeededRandom(seed: seed * 10 + lane)
              while !Task.isCancelled {
                let kind = Int.random(in: 0..<4, using: &random)
                let timeout: Timeout? =
                  Bool.random(using: &random) ? nil : .after(.microseconds(Int.random(in: 0...300, using: &random)))
                let task = Task.immediate {
                  switch kind {
                  case 0:
                    var numbers: [Int] = []
                    try await server.withDatagrams(upTo: 3, timeout: timeout) { bytes, _ in
                      numbers.append(bytes.number)
                    }
                    return numbers
                  case 1: return try await server.receive(upTo: 5, timeout: timeout).map { $0.bytes.span.number }
                  default:
                    let datagram = try await server.receive(timeout: timeout)
                    return [datagram.bytes.span.number]
                  }
                }
                if Bool.random(using: &random) {
                  spin(for: Int64.random(in: 0..<20_000, using: &random))
                  task.cancel()
                }
                await withTaskCancellationHandler {
                  if let numbers = try? await task.value { seen.withLock { $0 += numbers } }
                } onCancel: {
                  task.cancel()
                }
              }
            }
          }
        }
      }
      for number in 0..<total {
        try await client.send([UInt8(number >> 8), UInt8(number & 255)], to: address)
        if number % 50 == 49 { try await eventually("they are received") { seen.withLock { $0.count } > number } }
      }
      receiving.cancel()
      await receiving.value
      #expect(seen.withLock { $0.sorted() } == Array(0..<total))
    }
  }
}

extension Span<UInt8> {
  fileprivate var number: Int { Int(self[0]) << 8 | Int(self[1]) }
}
