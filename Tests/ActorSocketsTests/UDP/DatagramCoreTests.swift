import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets
@testable import EpollReactor

/// What an endpoint decides about its sockets, without a kernel.
@Suite struct DatagramCoreTests {
  private static let loopback = SocketAddress.ipv4(.loopback, port: 5000)
  private static let loopback6 = SocketAddress.ipv6(.loopback, port: 5000)
  private static let all = SocketAddress.ipv6(.any, port: 5000)
  private static let named = SocketAddress.unix(UnixPath("@datagram-core") ?? .unnamed)

  private static func core(
    _ addresses: [SocketAddress], mayBeDual: Bool = true, isOnDevice: Bool = false
  ) -> DatagramCore {
    DatagramCore(
      addresses.map {
        BoundSocket(
          registration: Registration(on: .shared), address: $0, kind: BoundSocket.Kind($0, mayBeDual: mayBeDual))
      }, isOnDevice: isOnDevice, DatagramSizes(UDPEndpoint.Configuration()))
  }

  // MARK: Routes

  @Test func `A datagram leaves through the socket that reaches its address`() throws {
    let two = Self.core([.ipv4(IPv4Address(192, 0, 2, 1), port: 5000), Self.loopback, Self.loopback6])
    let (near, far) = (SocketAddress.ipv4(.loopback, port: 7), SocketAddress.ipv4(IPv4Address(192, 0, 2, 9), port: 7))
    #expect(try two.route(near).index == 1 && two.route(far).index == 0)
    #expect(try two.route(.ipv6(.loopback, port: 7)).index == 2)
    // No socket has the scope of this address, so any of its family serves.
    let global = SocketAddress.ipv6(try #require(IPv6Address("2001:db8::9")), port: 7)
    #expect(try two.route(global).index == 2)
    #expect(throws: SocketError.self) { try two.route(Self.named) }
  }

  @Test func `A socket for both families gets IPv4 addresses in the form of IPv6`() throws {
    let dual = try Self.core([Self.all]).route(Self.loopback)
    #expect(dual.destination == .ipv6(IPv6Address(mapped: .loopback), port: 5000))
    let code = #expect(throws: SocketError.self) {
      try Self.core([Self.all], mayBeDual: false).route(Self.loopback)
    }?
    .code
    #expect(code == .familyNotSupported)
  }

  @Test func `With a peer, only datagrams to it leave, and through its socket`() throws {
    var core = Self.core([Self.loopback, Self.loopback6])
    let peer = SocketAddress.ipv6(.loopback, port: 7)
    #expect(throws: SocketError.self) { try core.route(nil) }
    core.connected(1, to: peer)
    for address in [nil, peer] {
      let route = try core.route(address)
      #expect(route.index == 1 && route.destination == nil)
    }
    #expect(throws: SocketError.self) { try core.route(.ipv6(.loopback, port: 8)) }
    #expect(throws: SocketError.self) { try core.route(.ipv4(.loopback, port: 7)) }
    // A sender without a name is not the peer.
    #expect(throws: SocketError.self) { try core.route(nil, isReply: true) }
    #expect(core.main.address == Self.loopback6)
    // An error about the old peer does not concern the new one.
    core.reportedError = SocketError(.connectionRefused, operation: "send")
    core.connected(1, to: .ipv6(.loopback, port: 9))
    #expect(core.reportedError == nil)
    // Another peer is looked for as if there were no peer.
    #expect(try core.routes.routeWithoutPeer(.ipv4(.loopback, port: 7), for: "connect").index == 0)
  }

  @Test func `An address that needs an interface needs no scope if the sockets are on one, or if it is a group`() throws
  {
    let link = SocketAddress.ipv6(try #require(IPv6Address("fe80::1")), port: 7)
    let group = SocketAddress.ipv6(try #require(IPv6Address("ff02::1")), port: 7)
    for isOnDevice in [false, true] {
      let core = Self.core([Self.all], isOnDevice: isOnDevice)
      let error = Result { try core.route(link) }.error as? SocketError
      #expect(error?.code == (isOnDevice ? nil : .scopeMissing) && error?.operation == (isOnDevice ? nil : "send"))
      #expect(try core.route(group).index == 0)
      let connecting = Result { try core.routes.routeWithoutPeer(link, for: "connect") }.error as? SocketError
      #expect(connecting?.operation == (isOnDevice ? nil : "connect"))
    }
  }

  @Test func `Of several sockets without the scope of an address, the first serves`() throws {
    let here = try [1, 2].map { SocketAddress.ipv6(try #require(IPv6Address("::1")), port: $0) }
    let far = SocketAddress.ipv6(try #require(IPv6Address("2001:db8::9")), port: 7)
    #expect(try Self.core(here).route(far).index == 0)
  }

  @Test(arguments: [
    SocketAddress.ipv4(.loopback, port: 0), .ipv6(.loopback, port: 0), .unix(.unnamed), nil,
  ])
  func `A sender that cannot be answered is known at once`(address: SocketAddress?) {
    #expect(DatagramRoutes.flaw(ofSender: address) != nil)
    #expect(DatagramRoutes.flaw(ofSender: Self.loopback) == nil)
  }

  // MARK: Room

  @Test func `A full buffer makes all sends wait, or only those to one destination`() {
    func wait(_ addresses: [SocketAddress], connected: Bool, isShortage: Bool) -> String {
      var core = Self.core(addresses)
      if connected { core.connected(0, to: addresses[0]) }
      let wait = core.noRoom(0, isShortage: isShortage, at: 0)
      guard case .destination(let isAnnounced) = wait else { return core.mustWaitToSend ? "all" : "a fault" }
      if core.mustWaitToSend || core.nextRetry != .max { return "a fault" }
      return isAnnounced ? "destination, with an event" : "destination"
    }
    let (one, two, unix) = ([Self.loopback], [Self.loopback, Self.loopback6], [Self.named])
    for connected in [false, true] {
      #expect(wait(one, connected: connected, isShortage: false) == "all")
      for addresses in [one, two, unix] {
        #expect(wait(addresses, connected: connected, isShortage: true) == "destination")
      }
    }
    #expect(wait(two, connected: false, isShortage: false) == "destination, with an event")
    #expect(wait(two, connected: true, isShortage: false) == "all")
    #expect(wait(unix, connected: false, isShortage: false) == "destination")
    #expect(wait(unix, connected: true, isShortage: false) == "destination, with an event")
  }

  @Test(arguments: 1...200 as ClosedRange<UInt64>)
  func `While all sends wait, a later time is known at which they are tried again`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var core = Self.core([Self.loopback])
    var now: Int64 = 0
    for _ in 0..<60 {
      now += Int64.random(in: 0...3_000_000, using: &random)
      switch Int.random(in: 0..<4, using: &random) {
      case 0:
        _ = core.noRoom(0, isShortage: false, at: now)
        #expect(core.mustWaitToSend && core.nextRetry > now)
      case 1: core.roomMayBe()
      case 2: core.sent()
      default:
        let due = core.nextRetry <= now
        let waited = core.mustWaitToSend
        core.retry(at: now)
        #expect(core.mustWaitToSend == (waited && !due))
      }
      #expect(core.mustWaitToSend == (core.nextRetry < .max))
      #expect(core.nextRetry == .max || core.nextRetry <= now + RetryPause.longest)
    }
  }

  @Test func `The pauses grow until something is sent`() {
    var core = Self.core([Self.loopback])
    func pause(at now: Int64) -> Int64 {
      _ = core.noRoom(0, isShortage: false, at: now)
      return core.nextRetry - now
    }
    let pauses = (0..<20).map { _ in pause(at: 0) }
    #expect(pauses[0] <= RetryPause.firstAnnounced && pauses[4] > 4 * RetryPause.firstAnnounced)
    #expect(pauses[19] == RetryPause.longest)
    core.sent()
    let first = pause(at: 0)
    #expect(first == pauses[0])
  }

  // MARK: Messages of several datagrams

  @Test func `A refused division lowers the limit of that socket only`() {
    var core = Self.core([Self.loopback, Self.loopback6])
    for index in 0...1 { core.dividesMessages(index) }
    func refused(_ errno: Int32, _ size: Int?) -> Bool {
      core.lowerSegmentLimit(0, after: SystemError(call: "sendmmsg", errno: errno), of: size)
    }
    let answers = [refused(Errno.messageTooLong, nil), refused(Errno.connectionRefused, 100)]
    #expect(answers == [false, false] && core.routes.sockets[0].segmentLimit == SegmentRun.mostBytes)
    let first = refused(Errno.messageTooLong, 1400)
    #expect(first && core.routes.sockets[0].segmentLimit == 1399)
    let higher = refused(Errno.invalidArgument, 2000)
    #expect(higher && core.routes.sockets[0].segmentLimit == 1399)
    let last = refused(Errno.inputOutput, 1000)
    #expect(
      last && core.routes.sockets[0].segmentLimit == 0 && core.routes.sockets[1].segmentLimit == SegmentRun.mostBytes)
  }

  // MARK: Attempts

  private static let refused = SystemError(call: "sendto", errno: Errno.connectionRefused)
  private static let unreachable = SystemError(call: "sendto", errno: Errno.hostUnreachable)

  private func steps(_ errors: [SystemError], mayBeOfEarlier: Bool = true, hasEntries: Bool = false) -> [String] {
    var attempts = SendAttempts()
    return errors.map {
      switch attempts.failed($0, mayBeOfEarlier: mayBeOfEarlier, { hasEntries }) {
      case .fail: "fail"
      case .tryAgain: "again"
      case .reportAndTryAgain(let error): "report \(error.errno)"
      }
    }
  }

  @Test func `A message fails with its own error, and an error of an earlier one is reported`() {
    let other = SystemError(call: "sendto", errno: Errno.badDescriptor)
    #expect(steps([other]) == ["fail"])
    #expect(steps([Self.refused], mayBeOfEarlier: false) == ["fail"])
    #expect(steps([other, other, other, other], hasEntries: true) == ["again", "again", "again", "fail"])
    #expect(steps([Self.refused, Self.refused, Self.refused, Self.refused]) == ["again", "again", "again", "fail"])
    // An error in the queue is always that of an earlier one.
    #expect(steps([Self.refused], mayBeOfEarlier: false, hasEntries: true) == ["again"])
    #expect(steps([Self.refused, Self.unreachable]) == ["again", "report \(Errno.connectionRefused)"])
  }

  @Test func `A changed message has all attempts, and the error of the earlier datagram is not forgotten`() {
    var attempts = SendAttempts()
    func fail() -> Bool {
      if case .fail = attempts.failed(Self.refused, mayBeOfEarlier: true, { false }) { true } else { false }
    }
    #expect((0..<3).map { _ in fail() } == [false, false, false])
    attempts.restart()
    #expect(attempts.suspect?.errno == Errno.connectionRefused)
    #expect((0..<4).map { _ in fail() } == [false, false, false, true])
  }

  @Test func `The last attempt takes no report from the error queue`() {
    var attempts = SendAttempts()
    var taken = 0
    for _ in 0..<SendAttempts.most {
      _ = attempts.failed(Self.refused, mayBeOfEarlier: true) {
        taken += 1
        return true
      }
    }
    #expect(taken == SendAttempts.most - 1)
    #expect(attempts.suspect == nil)
  }
}

extension Result {
  fileprivate var error: Failure? {
    if case .failure(let error) = self { error } else { nil }
  }
}
