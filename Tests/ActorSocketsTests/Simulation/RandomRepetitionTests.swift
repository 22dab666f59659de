import ActorSockets
import ActorSocketsTLS
import ActorSocketsTesting
import Foundation
import Glibc
import TestSupport
import Testing

/// The seed decides what a program gets that asks the system for random numbers, and the order of sets and dictionaries never changes.
@Suite(.tags(.foundation)) struct RandomRepetitionTests {
  enum Source: String, CaseIterable, CustomTestStringConvertible {
    case generator, shuffle, uuid, getrandom, getentropy, arc4random, hashValue, dictionary, set, json, retry, tls

    var testDescription: String { rawValue }
    /// Whether every run of a process gives the same, whatever its seed is.
    var isOfProcess: Bool { [.hashValue, .dictionary, .set, .json].contains(self) }
  }

  /// What a program that draws from the source has found.
  private static func draw(_ source: Source, _ seed: UInt64) async throws -> String {
    let found = Notes<String>()
    let simulation = Simulation(seed: seed, timeOfDay: UnixTime(durationSince1970: .seconds(1_800_000_000)))
    try await simulation.run { found.add(try await value(of: source, simulation)) }
    return "\(found.all) \(simulation.traceHash)"
  }

  private static func value(of source: Source, _ simulation: Simulation) async throws -> String {
    let words = (0..<50).map { "word \($0)" }
    var bytes = [UInt8](repeating: 0, count: 21)
    switch source {
    case .generator: return "\(UInt64.random(in: .min ... .max)) \(Double.random(in: 0...1)) \(Bool.random())"
    case .shuffle: return "\(words.shuffled()) \(words.randomElement() ?? "")"
    case .uuid: return "\(UUID()) \(UUID()) \(NSUUID().uuidString)"
    case .getrandom:
      // The module of the C library lacks it.
      guard let function = unsafe dlsym(nil, "getrandom") else { return "there is none" }
      typealias Function = @convention(c) (UnsafeMutableRawPointer, Int, UInt32) -> Int
      let getrandom = unsafe unsafeBitCast(function, to: Function.self)
      #expect(unsafe getrandom(&bytes, bytes.count, 0) == bytes.count)
    case .getentropy: _ = unsafe Glibc.getentropy(&bytes, bytes.count)
    case .arc4random:
      unsafe arc4random_buf(&bytes, bytes.count)
      return "\(bytes) \(Glibc.arc4random()) \((0..<100).map { _ in arc4random_uniform(10) })"
    case .hashValue: return "\("a".hashValue) \([1, 2].hashValue)"
    case .dictionary: return "\(Dictionary(uniqueKeysWithValues: words.map { ($0, $0.count) }).keys)"
    case .set: return "\(Set(words))"
    case .json:
      let data = try JSONEncoder().encode(Dictionary(uniqueKeysWithValues: words.map { ($0, 1) }))
      return String(decoding: data, as: UTF8.self)
    case .retry:
      var configuration = TCPConnection.Configuration()
      configuration.retry = .init()
      _ = try? await TCPConnection.connect(to: .host("main", port: 9), configuration: configuration)
      return "\(simulation.clock.now)"
    case .tls: return try await converse(simulation)
    }
    return "\(bytes)"
  }

  /// The ciphertext, the key and the certificate show in the hash of the trace.
  private static func converse(_ simulation: Simulation) async throws -> String {
    let identity = try TLSIdentity.selfSigned(for: ["main"])
    var configuration = TLSConfiguration()
    configuration.identity = identity
    configuration.trustRoots = [.certificates([identity.certificate])]
    let context = try TLSContext(configuration)
    let listener = try TCPListener.bind(to: .port(443))
    async let serving = listener.serve(tls: context) { try await $0.write(utf8: "hello\n") }
    let answer = try await simulation.host("client").run {
      try await TLSConnection.withConnection(to: .host("main", port: 443), context: context) {
        try await $0.read(.line())
      }
    }
    await listener.drain(within: .zero)
    _ = try await serving
    return answer ?? ""
  }

  @Test(arguments: Source.allCases)
  func `The same seed gives the same again, and another seed something else`(source: Source) async throws {
    let values = [try await Self.draw(source, 1), try await Self.draw(source, 1), try await Self.draw(source, 2)]
    #expect(values[0] == values[1])
    #expect((values[0] == values[2]) == source.isOfProcess)
  }

  // MARK: Other processes

  /// Set in the processes that the test starts.
  private static let isInOtherProcess = ProcessInfo.processInfo.environment["ACTORSOCKETS_DRAWS"] != nil

  private func printed() async throws -> [String] {
    let tests = try await Program(
      .env,
      [
        "ACTORSOCKETS_DRAWS=yes", ownProgram.path, "--testing-library", "swift-testing", "--filter",
        "RandomRepetitionTests/.*prints",
      ])
    let status = try await tests.exitStatus()
    let lines = await tests.output.whole.split(separator: "\n").filter { $0.hasPrefix("drawn ") }.map(String.init)
    #expect(status == 0, "\(lines)")
    return lines
  }

  @Test(.needs(.env)) func `The same seed gives the same in another process`() async throws {
    let (one, other) = (try await printed(), try await printed())
    #expect(one.count == Source.allCases.count && other.count == one.count)
    for (line, otherLine) in zip(one, other) { #expect(line == otherLine) }
  }

  @Test func `A process of its own prints what it has drawn`() async throws {
    guard Self.isInOtherProcess else { return }
    for source in Source.allCases { print("drawn", source, try await Self.draw(source, 7)) }
  }

  // MARK: Outside

  private static func drawAll() -> [String] {
    (0..<4).flatMap { _ in ["\(UInt64.random(in: .min ... .max))", "\(UUID())", "\(Glibc.arc4random())"] }
  }

  @Test func `Other threads get the system's random numbers`() async throws {
    let found = Notes<String>()
    for _ in 0..<2 { try await Simulation(seed: 1).run { for value in Self.drawAll() { found.add(value) } } }
    let outside = Self.drawAll() + Self.drawAll()
    #expect(Set(outside).count == outside.count)
    #expect(Set(found.all).count == found.all.count / 2)
    #expect(Set(outside).isDisjoint(with: found.all))
  }
}
