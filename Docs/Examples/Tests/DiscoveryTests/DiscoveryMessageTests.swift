import Testing

@testable import Discovery

@Suite struct DiscoveryMessageTests {
  private static let service = DiscoveredService(name: "Drucker im Büro", port: 631, properties: ["a": "", "b": "x=y"])
  private static let bytes = DiscoveryMessage(.announcement, from: 7, lifetime: 300, service: service).bytes ?? []

  @Test func `A message is the same after it was written and parsed`() throws {
    let message = try #require(DiscoveryMessage(parsing: Self.bytes))
    #expect(message.kind == .announcement && message.sender == 7 && message.lifetime == 300)
    #expect(message.service == Self.service)
    for kind in [DiscoveryMessage.Kind.query, .goodbye] {
      let plain = DiscoveryMessage(kind, from: .max)
      #expect(DiscoveryMessage(parsing: try #require(plain.bytes)) == plain)
    }
  }

  @Test func `A value that begins with an accent does not hide the equals sign`() throws {
    let service = DiscoveredService(name: "a", port: 1, properties: ["a": "\u{338}b"])
    let bytes = try #require(DiscoveryMessage(.announcement, from: 7, lifetime: 300, service: service).bytes)
    #expect(DiscoveryMessage(parsing: bytes)?.service == service)
  }

  @Test func `A part of a message is no message of another service`() {
    for count in 0..<Self.bytes.count {
      let message = DiscoveryMessage(parsing: Array(Self.bytes.prefix(count)))
      guard let service = message?.service else { continue }
      // A part that ends between two fields lacks properties.
      #expect(service.name == Self.service.name && service.port == Self.service.port)
      #expect(service.properties.allSatisfy { Self.service.properties[$0.key] == $0.value })
    }
  }

  @Test func `Any bytes can be parsed`() {
    var generator = SystemRandomNumberGenerator()
    for _ in 0..<20_000 {
      var bytes = Self.bytes
      for _ in 0..<Int.random(in: 1...4) {
        bytes[Int.random(in: 4..<bytes.count)] = UInt8.random(in: 0...255, using: &generator)
      }
      guard let service = DiscoveryMessage(parsing: bytes)?.service else { continue }
      #expect(service.port > 0 && (1...63).contains(service.name.utf8.count), "\(bytes)")
    }
  }

  @Test(arguments: [
    DiscoveredService(name: "", port: 1), DiscoveredService(name: "a\u{1B}", port: 1),
    DiscoveredService(name: "a", port: 0),
    DiscoveredService(name: String(repeating: "a", count: 64), port: 1),
    DiscoveredService(name: "a", port: 1, properties: ["": "a"]),
    DiscoveredService(name: "a", port: 1, properties: ["a=": "a"]),
    DiscoveredService(name: "a", port: 1, properties: ["a": String(repeating: "x", count: 254)]),
    DiscoveredService(
      name: "a", port: 1,
      properties: .init(uniqueKeysWithValues: (0..<5).map { ("\($0)", String(repeating: "x", count: 250)) })),
    DiscoveredService(name: "a", port: 1, properties: .init(uniqueKeysWithValues: (0..<33).map { ("\($0)", "") })),
  ])
  func `A service that does not fit is refused`(service: DiscoveredService) {
    #expect(DiscoveryMessage(.announcement, from: 1, lifetime: 1, service: service).bytes == nil)
    #expect(throws: Discovery.UnsuitableService.self) { try Discovery(announcing: service) }
  }
}
