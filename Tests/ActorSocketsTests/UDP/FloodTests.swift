import ActorSockets
import Foundation
import SocketSystem
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct FloodTests {
  /// The number of datagrams; five million in a soak.
  private static let total = max(50_000, rounds * 5)

  @Test(.endsInTime(seconds: 300))
  func `Of a flood what is received and what was dropped is all that was sent, and memory stays`() async throws {
    let reactor = Reactor()
    let told = Dropped()
    reactor.observer = told
    let server = try DatagramTransport.ipv4.bind(reactor: reactor)
    let client = try DatagramTransport.ipv4.bind(reactor: Reactor())
    let address = server.localAddresses[0]
    let total = Self.total
    let sending = Task {
      var number = 0
      while number < total {
        let count = min(50, total - number)
        try await client.send((0..<count).map { Datagram(Self.bytes(number + $0), to: address) })
        number += count
      }
      // The last one says so; it may be dropped, so it is sent until somebody has it.
      return number
    }
    let hasEnded = Gate()
    let receiving = Task {
      var count = 0
      var last = -1
      for try await datagram in server.datagrams {
        let number = datagram.bytes.prefix(8).reduce(0) { $0 << 8 | Int($1) }
        if number == Int.max >> 8 { break }
        if number <= last { Issue.record("\(number) after \(last)") }
        last = number
        count += 1
        // Now and then the receiver stops until the sender is far ahead, so that some datagrams are dropped.
        if count % 5000 == 0 {
          let goal = min(UInt64(total), await client.metrics.datagramsSent + 2000)
          try await eventually("the sender is ahead") { await client.metrics.datagramsSent >= goal }
        }
      }
      hasEnded.open()
      return count
    }
    try await eventually("memory is measured") { await server.metrics.datagramsReceived > 1000 }
    let before = residentMemory()
    #expect(try await sending.value == total)
    var ends = 0
    try await eventually("an end arrives") {
      try await client.send(Self.bytes(Int.max >> 8), to: address)
      ends += 1
      return hasEnded.isOpen
    }
    let received = try await receiving.value
    try await eventually("all ends are accounted for") {
      let metrics = await server.metrics
      return metrics.datagramsReceived + metrics.datagramsDropped == UInt64(total + ends)
        || metrics.fetchedAhead < 32
    }
    // What the receiver has not fetched waits in the kernel.
    while (try? await server.receive(timeout: .zero)) != nil {}
    let metrics = await server.metrics
    #expect(metrics.datagramsReceived + metrics.datagramsDropped == UInt64(total + ends), "\(metrics)")
    #expect(received <= total && received > 0)
    await server.close()
    #expect(told.count.withLock { $0 } == metrics.datagramsDropped)
    #expect(await server.metrics == metrics)
    #expect(await client.metrics.datagramsSent == UInt64(total + ends))
    let growth = residentMemory() - before
    #expect(growth < 64 << 20, "\(before) bytes grew by \(growth)")
  }

  private static func bytes(_ number: Int) -> [UInt8] {
    let head: [UInt8] = (0..<8).map { UInt8(truncatingIfNeeded: number >> (56 - 8 * $0)) }
    return head + Array(8..<64)
  }
}

private final class Dropped: ReactorObserver {
  let count = Locked<UInt64>(0)

  func datagramsDropped(_ count: UInt64, at endpoint: ObservedConnection) { self.count.withLock { $0 += count } }
}

private func residentMemory() -> Int {
  let text = (try? String(contentsOfFile: "/proc/self/statm", encoding: .utf8)) ?? ""
  return (text.split(separator: " ").dropFirst().first.flatMap { Int($0) } ?? 0) * 4096
}
