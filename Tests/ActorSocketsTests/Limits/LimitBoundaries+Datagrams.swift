import ActorSocketsTesting
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

extension LimitBoundaries {
  private static let descriptors = "descriptors received with a datagram"
  private static let budget = "bytes that `enqueueSend` may queue; bytes that a datagram counts, at least"
  private static let pause =
    "pause before sending is tried again, if there is no room; the first if an event announces room; the longest"
  private static let replies =
    "the send budget, divided by what waiting replies may have; by what those to one destination may have"

  static let datagrams: [LimitBoundary] = [
    .most("bytes of a received datagram, IPv4") { try await receives($0, .ipv4(.loopback, port: 0)) },
    .most("bytes of a received datagram, IPv6") { try await receives($0, .ipv6(.loopback, port: 0)) },
    .most("bytes of a sent datagram") { count in
      let receiver = try UDPEndpoint.bind(to: .unix(path: ""))
      let sender = try UDPEndpoint.bind(to: .unix(path: ""))
      return try await isWithinLimit {
        try await sender.send([UInt8](repeating: 1, count: count), to: receiver.localAddresses[0])
      }
    },
    .most(descriptors) { count in
      let receiver = try UDPEndpoint.bind(to: .unix(path: ""))
      let sender = try UDPEndpoint.bind(to: .unix(path: ""))
      var datagram = Datagram([1], to: receiver.localAddresses[0])
      for _ in 0..<count {
        let ends = try pipeEnds()
        _ = OwnedDescriptor(owning: ends.writing)
        datagram.pass(OwnedDescriptor(owning: ends.reading))
      }
      try await sender.send(datagram)
      let received = try await receiver.receive()
      var taken = 0
      while true {
        let isEmpty = received.takeDescriptor() == nil
        if isEmpty { return taken == count }
        taken += 1
      }
    },
    .most(descriptors, position: 1) { count in
      var configuration = UDPEndpoint.Configuration()
      configuration.descriptorsPerDatagram = count
      return (try? UDPEndpoint.bind(to: .unix(path: ""), configuration: configuration)) != nil
    },
    .most(budget) { count in
      // Of the pieces, the last one is smaller.
      let pieces = stride(from: 0, to: count, by: 60_000).map { min(60_000, count - $0) }
      return try await queuesDatagrams(pieces)
    },
    // Behind an empty datagram, one of a byte needs a budget of twice what a datagram counts.
    .least(budget, position: 1) { count in try await queuesDatagrams([1], budget: 2 * count) },
    .time(pause) { pauses(isAnnounced: false)[0] },
    .time(pause, position: 1) { pauses(isAnnounced: true)[0] },
    .time(pause, position: 2) { pauses(isAnnounced: false).max() ?? .zero },
    .time("time that a reply waits for room") {
      let time = ManualTime()
      let client = try UDPEndpoint.bind(to: .unix(path: ""), reactor: time.reactor)
      let deaf = try UDPEndpoint.bind(to: .unix(path: ""))
      let full = deaf.localAddresses[0]
      while try await isInTime({ try await client.send([0], to: full, timeout: .zero) }) {}
      try await client.send(reply(to: full))
      let expiry = try #require(await client.expiryOfReply(to: full))
      await time.advance(by: .nanoseconds(expiry - 1))
      let isEarly = await !client.isTooLate(expiry)
      await time.advance(by: .nanoseconds(1))
      let isLate = await client.isTooLate(expiry)
      try #require(isEarly && isLate)
      return .nanoseconds(expiry)
    },
    .most(replies) { divisor in
      try await waitingReplies(destinations: 8) * divisor <= UDPEndpoint.Configuration().sendBudget
    },
    .most(replies, position: 1) { divisor in
      try await waitingReplies(destinations: 1) * divisor <= UDPEndpoint.Configuration().sendBudget
    },
    .most("reported errors that wait to be read") { count in
      var reports = ErrorReports()
      for _ in 0..<count {
        reports.add(.init(error: SocketError(.unreachable, operation: "send"), reporter: nil, largestPacket: nil))
      }
      var taken = 0
      while reports.take() != nil { taken += 1 }
      return taken == count
    },
    .time("time to look up a peer's name") {
      try await inSimulation { _ in
        var configuration = UDPEndpoint.Configuration()
        configuration.resolver = SilentResolver()
        let endpoint = try UDPEndpoint.bind(configuration: configuration)
        return await elapsed {
          await expectError(.timedOut) { try await endpoint.connect(to: .host("slow.example", port: 1)) }
        }
      }
    },
    .most("names for which an endpoint remembers the address family that it used") { count in
      let names = (0..<count).map { "name\($0).example" }
      var configuration = UDPEndpoint.Configuration()
      configuration.resolver = try StaticResolver(Dictionary(uniqueKeysWithValues: names.map { ($0, ["127.0.0.1"]) }))
      let endpoint = try UDPEndpoint.bind(to: .address(.ipv4(.loopback, port: 0)), configuration: configuration)
      let port = try #require(endpoint.localAddresses[0].port)
      for name in names { try await endpoint.send([1], to: .host(name, port: port)) }
      return await endpoint.searches.familiesThatWorked.count == count
    },
    .time("time for the pending sends, when an endpoint closes after them") {
      try await inSimulation { _ in
        var configuration = UDPEndpoint.Configuration()
        configuration.resolver = SilentResolver()
        let endpoint = try UDPEndpoint.bind(configuration: configuration)
        let sending = Task { try? await endpoint.send([1], to: .host("slow.example", port: 1)) }
        try await eventually("the name is looked up") { await endpoint.metrics.pendingSends == 1 }
        let time = await elapsed { await endpoint.closeAfterPendingSends() }
        _ = await sending.value
        return time
      }
    },
  ]

  // MARK: Tools

  struct SilentResolver: Resolver {
    @concurrent func addresses(of name: String, family: AddressFamily) async throws -> [SocketAddress] {
      await LimitBoundaries.waitForCancellation()
      throw CancellationError()
    }
  }

  private static func receives(_ count: Int, _ address: SocketAddress) async throws -> Bool {
    let receiver = try UDPEndpoint.bind(to: .address(address))
    let sender = try UDPEndpoint.bind(to: .address(address))
    try await sender.send([UInt8](repeating: 1, count: count), to: receiver.localAddresses[0])
    return try await !receiver.receive().isTruncated
  }

  /// Whether all of these datagrams are queued behind an empty one, whose name is being looked up. With `nil` the budget is the default.
  private static func queuesDatagrams(_ sizes: [Int], budget: Int? = nil) async throws -> Bool {
    var configuration = UDPEndpoint.Configuration()
    configuration.resolver = SilentResolver()
    if let budget { configuration.sendBudget = budget }
    let endpoint = try UDPEndpoint.bind(to: .address(.ipv4(.loopback, port: 0)), configuration: configuration)
    let first = Task { try await endpoint.send([], to: .host("slow.example", port: 1)) }
    try await eventually("the name is looked up") { await endpoint.metrics.pendingSends == 1 }
    for size in sizes {
      _ = endpoint.enqueueSend(Datagram([UInt8](repeating: 1, count: size), to: .ipv4(.loopback, port: 1)))
    }
    let pending = await endpoint.metrics.pendingSends
    await endpoint.close()
    _ = try? await first.value
    return pending == sizes.count + 1
  }

  private static func pauses(isAnnounced: Bool) -> [Duration] {
    var pause = RetryPause(isAnnounced: isAnnounced)
    return (0..<20).map { _ in .nanoseconds(pause.begin(at: 0)) }
  }

  private static func reply(to address: SocketAddress) -> Datagram {
    Datagram(received: [], from: address, isTruncated: false, nil).reply([1])
  }

  /// The bytes that the replies count that wait for destinations without room, with the default budget.
  private static func waitingReplies(destinations: Int) async throws -> Int {
    let endpoint = try UDPEndpoint.bind(to: .unix(path: ""))
    var driver = SendDriver()
    driver.queue.replyLimit = await endpoint.replyLimit
    let addresses = (1...destinations).map { SocketAddress.ipv4(.loopback, port: UInt16($0)) }
    driver.full = Set(addresses.map { Optional($0) })
    // More than the budget has room for.
    for number in 0..<UDPEndpoint.Configuration().sendBudget / SubmissionLimit.leastCharge + 10 {
      _ = driver.queue.admit(.datagrams([reply(to: addresses[number % destinations])]), number)
    }
    driver.run()
    return driver.queue.replies * SubmissionLimit.leastCharge
  }
}

extension UDPEndpoint {
  fileprivate var replyLimit: Int { sends.queue.replyLimit }

  /// When it is too late to send the first reply that waits for room at this destination.
  fileprivate func expiryOfReply(to address: SocketAddress) -> Int64? {
    sends.queue.lines[sends.queue.line(of: address)]?.waiting.first?.expiry
  }

  fileprivate func isTooLate(_ expiry: Int64) -> Bool { isOverdue(.reply(expiry: expiry)) }
}
