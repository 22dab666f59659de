import Testing

@testable import DNSForwarder

@Suite struct DNSCacheTests {
  private static let start = ContinuousClock.now

  private func question(_ name: String) throws -> DNSQuestion {
    let bytes = [UInt8(name.utf8.count)] + Array(name.utf8) + [0, 0, 1, 0, 1]
    return try DNSQuery(parsing: DNSHeader(id: 1, flags: [], questions: 1).bytes + bytes).question
  }

  /// Returns an answer with records of these types and lifetimes.
  private func response(
    to question: DNSQuestion, _ status: DNSStatus = .noError, answers: [UInt32] = [],
    authority: (UInt32, minimum: UInt32)? = nil,
    flags: DNSFlags = []
  ) throws -> DNSResponse {
    func bytes(_ number: UInt32) -> [UInt8] { [24, 16, 8, 0].map { UInt8(number >> $0 & 255) } }
    let all = DNSFlags(rawValue: flags.union(.response).rawValue | status.rawValue)
    var message =
      DNSHeader(
        id: 9, flags: all, questions: 1, answers: UInt16(answers.count), authorities: authority == nil ? 0 : 1,
        additional: 1
      ).bytes + question.bytes
    for lifetime in answers { message += [0xC0, 12, 0, 1, 0, 1] + bytes(lifetime) + [0, 4, 192, 0, 2, 1] }
    if let authority {
      message +=
        [0xC0, 12, 0, 6, 0, 1] + bytes(authority.0) + [0, 22, 0, 0] + Array(repeating: 0, count: 16)
        + bytes(authority.minimum)
    }
    message += DNSHeader.options(wantsSignatures: false)
    return try #require(DNSResponse(message, to: question, id: 9))
  }

  @Test func `An answer is there for the shortest time of its records`() throws {
    let a = try question("a")
    var cache = DNSCache(limit: 10)
    cache.keep(try response(to: a, answers: [300, 60, 90]), to: a, now: Self.start)
    #expect(cache.answer(to: a, now: Self.start)?.age == 0)
    #expect(cache.answer(to: a, now: Self.start + .seconds(59.9))?.age == 59)
    #expect(cache.answer(to: a, now: Self.start + .seconds(60)) == nil)
    #expect(cache.count == 0)
  }

  @Test func `The records of a cached answer say how long they may still be kept`() throws {
    let a = try question("a")
    let query = try DNSQuery(
      parsing: DNSHeader(id: 7, flags: .recursionDesired, questions: 1).bytes + [1, 65, 0, 0, 1, 0, 1])
    let message = try response(to: a, answers: [300, 60]).message(to: query, age: 50, limit: 512)
    #expect(
      message.suffix(32) == [
        0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 250, 0, 4, 192, 0, 2, 1, 0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 10, 0, 4, 192, 0, 2, 1,
      ])
    // The client's number and spelling, and no record of EDNS, because the client does not use EDNS.
    #expect(message.prefix(19) == [0, 7, 0x81, 0x80, 0, 1, 0, 2, 0, 0, 0, 0, 1, 65, 0, 0, 1, 0, 1])
    #expect(message.count == 19 + 32)
  }

  @Test func `How long an answer may be cached depends on what it says`() throws {
    let a = try question("a")
    #expect(try response(to: a, answers: [0]).lifetime == 0)
    #expect(try response(to: a, answers: [1 << 31]).lifetime == 0)
    #expect(try response(to: a, answers: [1_000_000]).lifetime == 86_400)
    #expect(try response(to: a, .nameError).lifetime == 0)
    #expect(try response(to: a, .nameError, authority: (300, minimum: 40)).lifetime == 40)
    #expect(try response(to: a, authority: (30, minimum: 40)).lifetime == 30)
    #expect(try response(to: a, .serverFailure, answers: [300]).lifetime == 0)
    #expect(try response(to: a, answers: [300], flags: .truncated).lifetime == 0)
  }

  @Test func `The oldest answer makes room for a new one`() throws {
    let questions = try ["a", "b", "c", "d"].map(question)
    var cache = DNSCache(limit: 2)
    for question in questions { cache.keep(try response(to: question, answers: [60]), to: question, now: Self.start) }
    #expect(questions.map { cache.answer(to: $0, now: Self.start) != nil } == [false, false, true, true])
    // An answer that comes again is new, and the memory for the order of answers has a limit.
    for _ in 0..<100 { cache.keep(try response(to: questions[2], answers: [60]), to: questions[2], now: Self.start) }
    cache.keep(try response(to: questions[0], answers: [60]), to: questions[0], now: Self.start)
    #expect(questions.map { cache.answer(to: $0, now: Self.start) != nil } == [true, false, true, false])
    #expect(cache.count == 2)
  }

  @Test func `A record of options among the answers does not end the process`() throws {
    let a = try question("a")
    let options: [UInt8] = [0, 0, 41, 16, 0, 0, 0, 0, 0, 0, 0]
    let message = DNSHeader(id: 9, flags: .response, questions: 1, answers: 1).bytes + a.bytes + options
    #expect(DNSResponse(message, to: a, id: 9)?.lifetime == 0)
  }

  @Test func `Cut and changed messages are read to an end`() throws {
    let a = try question("a")
    let seed = UInt64.random(in: 0 ... .max)
    print("seed \(seed)")
    var state = seed
    func next(_ limit: Int) -> Int {
      state = state &* 6_364_136_223_846_793_005 &+ 1_442_695_040_888_963_407
      return Int(state >> 33) % limit
    }
    let whole =
      DNSHeader(id: 9, flags: .response, questions: 1, answers: 2).bytes + a.bytes
      + [0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 1, 2, 3, 4] + [
        1, 98, 0xC0, 12, 0, 1, 0, 1, 0, 0, 0, 9, 0, 4, 1, 2, 3, 4,
      ]
    #expect(DNSResponse(whole, to: a, id: 9) != nil)
    for length in 0..<whole.count { #expect(DNSResponse(Array(whole.prefix(length)), to: a, id: 9) == nil) }
    for _ in 0..<20_000 {
      var message = whole
      for _ in 0...next(4) { message[next(message.count)] = [0, 63, 0xC0, 0xFF, UInt8(next(256))][next(5)] }
      _ = DNSResponse(message, to: a, id: 9)?.lifetime
      _ = try? DNSQuery(parsing: message)
      var query = message
      query[2] &= 0x7F
      _ = try? DNSQuery(parsing: query)
    }
  }
}
