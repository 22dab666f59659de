import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

// The cases of RFC 8305 in virtual time: what the resolver and the network do is given, and the attempts are noted with the
// millisecond at which they begin.

@Suite(.tags(.pure)) struct HappyEyeballsTests {
  /// What the network does with an attempt, and after how many milliseconds.
  enum Fate: Sendable {
    case up(Int64), refused(Int64), unreachable(Int64), silence
  }

  /// What a look-up brings, and after how many milliseconds.
  struct Answer: Sendable {
    let time: Int64
    let family: AddressFamily
    /// The last parts of the addresses: empty if the name has no addresses, `nil` if the resolver failed.
    let addresses: [UInt8]?

    static func six(_ time: Int64, _ addresses: [UInt8]?) -> Answer {
      Answer(time: time, family: .ipv6, addresses: addresses)
    }
    static func four(_ time: Int64, _ addresses: [UInt8]?) -> Answer {
      Answer(time: time, family: .ipv4, addresses: addresses)
    }
  }

  struct Case: Sendable, CustomTestStringConvertible {
    let name: String
    var preference = AddressPreference.any
    var delay: Int64 = 250
    let answers: [Answer]
    /// By address: `"6.1"`; what is not named is silent.
    var fates: [String: Fate] = [:]
    /// The attempts with their times: `"0 6.1"`; at the end `"up"` with the address, or `"failed"` with the code.
    let expected: [String]

    var testDescription: String { name }
  }

  static func address(_ family: AddressFamily, _ last: UInt8) -> SocketAddress {
    switch family {
    case .ipv4: .ipv4(IPv4Address("192.0.2.\(last)") ?? .any, port: 80)
    case .ipv6: .ipv6(IPv6Address("2001:db8::\(String(last, radix: 16))") ?? .any, port: 80)
    }
  }

  static func name(_ address: SocketAddress) -> String {
    for family in AddressFamily.allCases {
      for last in UInt8.min...UInt8.max where self.address(family, last) == address {
        return "\(family == .ipv4 ? 4 : 6).\(last)"
      }
    }
    return "\(address)"
  }

  private enum Event {
    case answer(Answer)
    case up(HappyEyeballs.Attempt)
    case failed(HappyEyeballs.Attempt, SocketError.Code)
  }

  /// Plays a case until it comes out, or until nothing happens any more.
  private static func play(_ test: Case) -> [String] {
    let millisecond: Int64 = 1_000_000
    var machine = HappyEyeballs(awaiting: test.preference, attemptDelay: test.delay * millisecond)
    var events: [(time: Int64, event: Event)] = test.answers.map { ($0.time * millisecond, .answer($0)) }
    var log: [String] = []
    var now: Int64 = 0
    while true {
      var wake: Int64?
      steps: while true {
        switch machine.next(at: now) {
        case .attempt(let attempt):
          log.append("\(now / millisecond) \(name(attempt.address))")
          switch test.fates[name(attempt.address)] ?? .silence {
          case .up(let after): events.append((now + after * millisecond, .up(attempt)))
          case .refused(let after): events.append((now + after * millisecond, .failed(attempt, .connectionRefused)))
          case .unreachable(let after): events.append((now + after * millisecond, .failed(attempt, .unreachable)))
          case .silence: break
          }
        case .wait(let time):
          wake = time
          break steps
        case .fail(let error):
          return log + ["\(now / millisecond) failed \(error.code)"]
        }
      }
      let next = events.indices.min { events[$0].time < events[$1].time }
      if let next, events[next].time <= wake ?? .max {
        let (time, event) = events.remove(at: next)
        now = time
        switch event {
        case .answer(let answer):
          let error = SocketError(answer.addresses == nil ? .resolverFailed : .hostNotFound, operation: "look up")
          let found = (answer.addresses ?? []).map { address(answer.family, $0) }
          machine.resolved(answer.family, found.isEmpty ? .failure(error) : .success(found), at: now)
        case .up(let attempt):
          return log + ["\(now / millisecond) up \(name(attempt.address))"]
        case .failed(let attempt, let code):
          machine.failed(attempt, SocketError(code, operation: "connect", address: attempt.address), at: now)
        }
      } else if let wake {
        now = wake
      } else {
        return log + ["nothing more"]
      }
    }
  }

  static let cases: [Case] = [
    Case(
      name: "both answer at once: IPv6 is tried first, and wins", answers: [.six(10, [1]), .four(10, [1])],
      fates: ["6.1": .up(30), "4.1": .up(5)], expected: ["10 6.1", "40 up 6.1"]),
    Case(
      name: "IPv6 answers first: it is not waited for IPv4", answers: [.six(10, [1]), .four(5000, [1])],
      fates: ["6.1": .up(30)], expected: ["10 6.1", "40 up 6.1"]),
    Case(
      name: "IPv4 answers first, IPv6 within the resolution delay: IPv6 goes first",
      answers: [.four(10, [1]), .six(59, [1])], fates: ["6.1": .up(30), "4.1": .up(5)],
      expected: ["59 6.1", "89 up 6.1"]),
    Case(
      name: "IPv6 does not answer within the resolution delay: IPv4 begins",
      answers: [.four(10, [1]), .six(5000, [1])],
      fates: ["4.1": .up(5)], expected: ["60 4.1", "65 up 4.1"]),
    Case(
      name: "IPv6 answers while IPv4 is tried: it has its turn after the attempt delay",
      answers: [.four(10, [1, 2]), .six(100, [1])], fates: ["6.1": .up(5)],
      expected: ["60 4.1", "310 6.1", "315 up 6.1"]),
    Case(
      name: "the name has no IPv6 address: IPv4 begins at once", answers: [.four(10, [1]), .six(20, [])],
      fates: ["4.1": .up(5)], expected: ["20 4.1", "25 up 4.1"]),
    Case(
      name: "no IPv6 address is known before IPv4 answers: IPv4 begins at once",
      answers: [.six(5, nil), .four(10, [1])],
      fates: ["4.1": .up(5)], expected: ["10 4.1", "15 up 4.1"]),
    Case(
      name: "IPv6 is dropped: IPv4 begins after the attempt delay, and wins", answers: [.six(0, [1]), .four(0, [1])],
      fates: ["4.1": .up(20)], expected: ["0 6.1", "250 4.1", "270 up 4.1"]),
    Case(
      name: "an attempt that is overtaken may still win", answers: [.six(0, [1]), .four(0, [1])],
      fates: ["6.1": .up(260), "4.1": .up(20)], expected: ["0 6.1", "250 4.1", "260 up 6.1"]),
    Case(
      name: "the families take turns", answers: [.six(0, [1, 2, 3]), .four(0, [1, 2])],
      expected: ["0 6.1", "250 4.1", "500 6.2", "750 4.2", "1000 6.3", "nothing more"]),
    Case(
      name: "a failure starts the next at once", answers: [.six(0, [1, 2]), .four(0, [1, 2])],
      fates: ["6.1": .refused(10), "4.1": .refused(10), "6.2": .up(10)],
      expected: ["0 6.1", "10 4.1", "20 6.2", "30 up 6.2"]),
    Case(
      name: "a failure of an earlier attempt starts the next at once, too", answers: [.six(0, [1, 2]), .four(0, [1])],
      fates: ["6.1": .refused(300), "6.2": .up(10)], expected: ["0 6.1", "250 4.1", "300 6.2", "310 up 6.2"]),
    Case(
      name: "an attempt that fails on the spot costs no time", answers: [.six(0, [1, 2]), .four(0, [1])],
      fates: ["6.1": .unreachable(0), "6.2": .unreachable(0), "4.1": .up(20)],
      expected: ["0 6.1", "0 4.1", "20 up 4.1"]),
    Case(
      name: "all fail alike", answers: [.six(0, [1]), .four(0, [1])],
      fates: ["6.1": .refused(10), "4.1": .refused(10)], expected: ["0 6.1", "10 4.1", "20 failed connectionRefused"]),
    Case(
      name: "no way says less than a refusal", answers: [.six(0, [1]), .four(0, [1])],
      fates: ["6.1": .unreachable(0), "4.1": .refused(10)], expected: ["0 6.1", "0 4.1", "10 failed connectionRefused"]),
    Case(
      name: "what was known has failed, and the other answer is waited for", answers: [.six(0, [1]), .four(400, [1])],
      fates: ["6.1": .refused(10), "4.1": .up(5)], expected: ["0 6.1", "400 4.1", "405 up 4.1"]),
    Case(
      name: "the other answer does not come", answers: [.six(0, [1])], fates: ["6.1": .refused(10)],
      expected: ["0 6.1", "nothing more"]),
    Case(name: "nothing is found", answers: [.six(10, []), .four(20, [])], expected: ["20 failed hostNotFound"]),
    Case(
      name: "a server that did not answer may know an address", answers: [.six(10, []), .four(20, nil)],
      expected: ["20 failed resolverFailed"]),
    Case(name: "nobody answers", answers: [], expected: ["nothing more"]),
    Case(
      name: "IPv4 alone", preference: .ipv4Only, answers: [.six(0, [1]), .four(10, [1, 2])],
      fates: ["4.1": .refused(5), "4.2": .up(5)], expected: ["10 4.1", "15 4.2", "20 up 4.2"]),
    Case(
      name: "IPv6 alone", preference: .ipv6Only, answers: [.four(0, [1]), .six(100, [1])], fates: ["6.1": .refused(5)],
      expected: ["100 6.1", "105 failed connectionRefused"]),
    Case(
      name: "IPv4 is preferred: two of it go first", preference: .preferIPv4,
      answers: [.six(0, [1, 2]), .four(20, [1, 2, 3])],
      expected: ["20 4.1", "270 4.2", "520 6.1", "770 4.3", "1020 6.2", "nothing more"]),
    Case(
      name: "IPv6 is preferred: two of it go first", preference: .preferIPv6,
      answers: [.six(0, [1, 2, 3]), .four(0, [1])],
      expected: ["0 6.1", "250 6.2", "500 4.1", "750 6.3", "nothing more"]),
    Case(
      name: "without a preference, the family that answers first begins", preference: .neutral,
      answers: [.four(10, [1, 2]), .six(12, [1])], expected: ["10 4.1", "260 6.1", "510 4.2", "nothing more"]),
    Case(
      name: "without a preference, IPv6 begins if it answers first", preference: .neutral,
      answers: [.six(10, [1]), .four(12, [1])], fates: ["6.1": .refused(5)],
      expected: ["10 6.1", "15 4.1", "nothing more"]),
    Case(
      name: "the attempt delay is chosen", delay: 1000, answers: [.six(0, [1]), .four(0, [1])],
      expected: ["0 6.1", "1000 4.1", "nothing more"]),
    Case(
      name: "the attempt delay is never under 10 ms", delay: 0, answers: [.six(0, [1]), .four(0, [1])],
      expected: ["0 6.1", "10 4.1", "nothing more"]),
    Case(
      name: "the other family's addresses do not count", preference: .ipv4Only, answers: [.six(0, [1])],
      expected: ["nothing more"]),
  ]

  @Test(arguments: cases) func `It tries what RFC 8305 says, and when`(test: Case) {
    #expect(Self.play(test) == test.expected)
  }

  static func error(_ code: SocketError.Code, _ address: SocketAddress) -> SocketError {
    SocketError(code, operation: "connect", address: address)
  }

  @Test func `The failure of a single address is handed on as it is`() {
    let address = Self.address(.ipv4, 1)
    var machine = HappyEyeballs(trying: [address], attemptDelay: 0)
    let (count, error) = machine.failAll([.connectionRefused])
    #expect(count == 1 && error?.code == .connectionRefused && error?.address == address && error?.causes.count == 0)
  }

  @Test func `The error names every address that was tried and what became of it`() throws {
    let addresses = [Self.address(.ipv6, 1), Self.address(.ipv4, 1), Self.address(.ipv4, 2)]
    var machine = HappyEyeballs(trying: addresses, attemptDelay: 0)
    let (_, failure) = machine.failAll([.connectionRefused, .timedOut, .permissionDenied])
    let error = try #require(failure)
    #expect(error.code == .unreachable)
    #expect(error.causes.map(\.address) == addresses)
    #expect(error.causes.map(\.code) == [.connectionRefused, .timedOut, .permissionDenied])
    for address in addresses { #expect("\(error)".contains("\(address)")) }
    #expect("\(error)".contains("no process listens at this address") && "\(error)".contains("the timeout expired"))
    #expect(!"\(error)".contains("\n"))
  }

  @Test func `The error of a timeout names what failed, what did not answer, and the name that was not found yet`() {
    var machine = HappyEyeballs(awaiting: .any, attemptDelay: 0)
    #expect(
      "\(machine.timedOut(lookingUp: "a.example", "within 1 s"))".contains(
        "the look-up of \"a.example\" did not end within 1 s"))
    machine.resolved(.ipv6, .success([Self.address(.ipv6, 1), Self.address(.ipv6, 2)]), at: 0)
    guard case .attempt(let first) = machine.next(at: 0) else { Issue.record("nothing is tried"); return }
    machine.failed(first, Self.error(.connectionRefused, first.address), at: 0)
    _ = machine.next(at: 0)
    let error = machine.timedOut(lookingUp: "a.example", "within 1 s")
    #expect(error.code == .timedOut)
    #expect(error.causes.map(\.code) == [.connectionRefused, .timedOut])
    #expect("\(error)".contains("a.example") && "\(error)".contains("[2001:db8::2]:80: no answer"))
    machine.resolved(.ipv4, .failure(SocketError(.hostNotFound, operation: "look up")), at: 0)
    #expect(!"\(machine.timedOut(lookingUp: "a.example", "within 1 s"))".contains("a.example"))
  }

  @Test func `A single address that does not answer is named by the error`() {
    var machine = HappyEyeballs(trying: [Self.address(.ipv4, 1)], attemptDelay: 0)
    _ = machine.next(at: 0)
    let error = machine.timedOut(lookingUp: nil, "before the deadline")
    #expect(error.code == .timedOut && error.address == Self.address(.ipv4, 1) && error.causes.isEmpty)
    #expect("\(error)".contains("no address answered before the deadline"))
  }

  @Test func `Without an address there is nothing to connect to`() {
    var machine = HappyEyeballs(trying: [], attemptDelay: 0)
    let (count, error) = machine.failAll([.system])
    #expect(count == 0 && error?.code == .hostNotFound)
  }

  @Test func `A name with thousands of addresses has 32 of each family tried`() {
    var machine = HappyEyeballs(awaiting: .any, attemptDelay: 0)
    let many = (0..<5000).map { SocketAddress.ipv4(IPv4Address("10.0.\($0 >> 8).\($0 & 255)") ?? .any, port: 80) }
    machine.resolved(.ipv6, .success(many), at: 0)
    machine.resolved(.ipv4, .success(many), at: 0)
    let (count, error) = machine.failAll([.connectionRefused])
    #expect(count == 32 && error?.causes.count == 32)
  }

  @Test func `The addresses that were not tried are known, the next one first`() {
    let (six, four) = ([1, 2].map { Self.address(.ipv6, $0) }, [1, 2].map { Self.address(.ipv4, $0) })
    var machine = HappyEyeballs(awaiting: [.ipv4, .ipv6], of: .any, attemptDelay: 0)
    machine.resolved(.ipv6, .success(six), at: 0)
    machine.resolved(.ipv4, .success(four), at: 0)
    guard case .attempt(let first) = machine.next(at: 0) else { Issue.record("nothing is tried"); return }
    #expect(first.address == four[0] && machine.untried == six + [four[1]])
  }

  @Test func `A connection to itself is tried again, but not for ever`() {
    var machine = HappyEyeballs(trying: [Self.address(.ipv4, 1)], attemptDelay: 1_000_000_000)
    var count = 0
    while case .attempt(let attempt) = machine.next(at: 5) {
      machine.connectedToItself(attempt, at: 5)
      count += 1
    }
    #expect(count == 4)
    guard case .fail(let error) = machine.next(at: 5) else { Issue.record("no failure"); return }
    #expect(error.code == .connectionRefused && "\(error)".contains("itself"))
  }

  @Test func `A full backlog is tried again, at growing intervals`() {
    guard let path = UnixPath("@busy") else { Issue.record("no path"); return }
    var machine = HappyEyeballs(trying: [.unix(path)], attemptDelay: 0)
    var now: Int64 = 0
    var waits: [Int64] = []
    for _ in 0..<10 {
      switch machine.next(at: now) {
      case .attempt(let attempt): machine.foundBacklogFull(attempt, at: now)
      default: Issue.record("nothing is tried at \(now)")
      }
      guard case .wait(let time?) = machine.next(at: now) else { Issue.record("no pause"); return }
      waits.append((time - now) / 1_000_000)
      now = time
    }
    #expect(waits == [1, 2, 4, 8, 16, 32, 64, 100, 100, 100])
  }

  @Test(arguments: 0..<300) func `However events come, every address is tried once, and it comes out`(seed: Int) {
    var random = SeededRandom(seed: UInt64(seed))
    let preference: AddressPreference =
      [.any, .preferIPv4, .preferIPv6, .neutral].randomElement(using: &random) ?? .any
    var machine = HappyEyeballs(awaiting: preference, attemptDelay: 250_000_000)
    var awaited = AddressFamily.allCases.shuffled(using: &random)
    var tried: [SocketAddress] = []
    var expected: Set<SocketAddress> = []
    var underWay: [HappyEyeballs.Attempt] = []
    var now: Int64 = 0
    for _ in 0..<10_000 {
      switch machine.next(at: now) {
      case .attempt(let attempt):
        tried.append(attempt.address)
        underWay.append(attempt)
        continue
      case .fail:
        #expect(awaited.isEmpty && underWay.isEmpty && Set(tried) == expected && tried.count == expected.count)
        return
      case .wait(let time):
        if let time, Bool.random(using: &random) {
          #expect(time > now)
          now = time
          continue
        }
      }
      if let family = awaited.last, underWay.isEmpty || Bool.random(using: &random) {
        awaited.removeLast()
        let found = (0..<UInt8.random(in: 0..<5, using: &random)).map { Self.address(family, $0) }
        expected.formUnion(found)
        machine.resolved(family, .success(found), at: now)
      } else if let index = underWay.indices.randomElement(using: &random) {
        let attempt = underWay.remove(at: index)
        machine.failed(attempt, Self.error(.connectionRefused, attempt.address), at: now)
      }
    }
    Issue.record("seed \(seed): it does not come out")
  }
}
