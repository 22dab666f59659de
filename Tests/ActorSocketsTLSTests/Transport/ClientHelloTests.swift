import Testing

@testable import ActorSocketsTLS

@Suite struct ClientHelloTests {
  private static let client = Result { try Contexts.client() }

  private func hello() throws -> [UInt8] { try EngineEnd.hello(of: Self.client.get()) }

  /// The records of a hello whose body has this many bytes.
  private func records(_ body: Int, size: Int = 16_384) -> [UInt8] {
    let header: [UInt8] = [1, UInt8(body >> 16), UInt8(body >> 8 & 0xff), UInt8(body & 0xff)]
    return handshakeRecords(of: header + pattern(body), size: size)
  }

  private func progress(_ bytes: [UInt8], isRetry: Bool = false) -> ClientHello.Progress {
    ClientHello.progress(in: bytes.span, isRetry: isRetry)
  }

  /// Whether exactly these bytes are passed on.
  private func isComplete(_ bytes: [UInt8], isRetry: Bool = false) -> Bool {
    progress(bytes, isRetry: isRetry) == .complete(bytes.count)
  }

  @Test(arguments: [16_384, 100, 7, 3, 1])
  func `A hello is complete with its last byte, however it is divided into records`(size: Int) throws {
    let bytes = try handshakeRecords(of: Array(hello()[5...]), size: size)
    for isRetry in [false, true] {
      for count in 0..<bytes.count { #expect(progress(Array(bytes.prefix(count)), isRetry: isRetry) == .incomplete) }
      #expect(isComplete(bytes, isRetry: isRetry))
      #expect(progress(bytes + [22, 3, 3, 1], isRetry: isRetry) == .complete(bytes.count))
    }
  }

  @Test func `A hello may have 16,384 bytes and not one more, and is refused before the rest arrives`() {
    #expect(isComplete(records(ClientHello.limit)))
    #expect(progress(Array(records(ClientHello.limit).dropLast())) == .incomplete)
    let larger = records(ClientHello.limit + 1)
    #expect(progress(Array(larger.prefix(8))) == .incomplete)
    #expect(progress(Array(larger.prefix(9))) == .tooLarge)
    // The announcement itself may be divided.
    #expect(progress(Array(records(0xff_ffff & 131_000, size: 1).prefix(24))) == .tooLarge)
  }

  @Test func `A hello in very small records takes at most 17,408 bytes with their headers`() {
    let bytes = records(4_000, size: 1)
    #expect(bytes.count > ClientHello.recordLimit)
    #expect(progress(Array(bytes.prefix(ClientHello.recordLimit))) == .incomplete)
    #expect(progress(Array(bytes.prefix(ClientHello.recordLimit + 1))) == .tooLarge)
    let fits = records(ClientHello.recordLimit / 6 - 4, size: 1)
    #expect(fits.count <= ClientHello.recordLimit && isComplete(fits))
  }

  @Test(arguments: [
    "GET / HTTP/1.0\r\n", "SSH-2.0-OpenSSH_9.2", "\u{0}\u{0}\u{0}\u{0}\u{0}", "\u{16}\u{2}\u{1}\u{1}\u{1}",
  ])
  func `Input that is not TLS is no hello with its fifth byte`(text: String) {
    let bytes = Array(text.utf8)
    for count in 0..<5 { #expect(progress(Array(bytes.prefix(count))) == .incomplete) }
    for count in 5...bytes.count { #expect(progress(Array(bytes.prefix(count))) == .noHello(5)) }
    // A version that does not exist, after a part of a hello, and before a second hello.
    let part = handshakeRecords(of: [1], size: 1)
    #expect(progress(part + [22, 2, 0, 0, 4, 1, 2, 0, 0]) == .noHello(part.count + 5))
    #expect(progress([22, 2, 0, 0, 4, 1, 2, 0, 0], isRetry: true) == .noHello(5))
  }

  /// A record of each kind with its content: alerts of each level, changes of the cipher, application data, an empty
  /// record of the handshake, and kinds that do not exist in TLS.
  private static let otherRecords: [[UInt8]] = [
    [21, 2, 40], [21, 1, 90], [21, 1, 0], [21, 0, 0], [21, 1], [21], [20, 1], [20], [23, 7, 7, 7], [23], [22],
    [24, 1, 0], [99, 5], [0], [128],
  ]

  @Test(arguments: otherRecords)
  func `A record of another kind is no hello when it is complete, also within a hello`(record: [UInt8]) {
    let bytes = [record[0], 3, 3, 0, UInt8(record.count - 1)] + record[1...]
    for start in [[], handshakeRecords(of: [1], size: 1), handshakeRecords(of: [1, 0, 0, 9, 3], size: 2)] {
      for isRetry in [false, true] {
        for count in 0..<bytes.count {
          #expect(progress(start + bytes.prefix(count), isRetry: isRetry) == .incomplete)
        }
        // Records of these kinds have the same form for OpenSSL, which decides about them.
        let isBefore = isRetry && start.isEmpty && (20...23).contains(record[0])
        let expected: ClientHello.Progress = isBefore ? .before(bytes.count) : .noHello(start.count + bytes.count)
        #expect(progress(start + bytes, isRetry: isRetry) == expected)
        #expect(progress(start + bytes + [22, 3, 1, 0, 4, 1, 2, 0, 0], isRetry: isRetry) == expected)
      }
    }
  }

  @Test(arguments: [0, 2, 4, 11, 16, 24, 255] as [UInt8])
  func `Another message of the handshake is no hello with its first byte`(type: UInt8) {
    for isRetry in [false, true] {
      #expect(progress([22, 3, 3, 0, 1], isRetry: isRetry) == .incomplete)
      #expect(progress([22, 3, 3, 0, 1, type], isRetry: isRetry) == .noHello(5))
      #expect(progress([22, 3, 3, 0, 4, type, 2, 0, 0], isRetry: isRetry) == .noHello(5))
    }
  }

  @Test func `A record that announces more than a record may have in plain text is too large`() {
    #expect(progress([23, 3, 3, 0x40, 0]) == .incomplete)
    for type in [20, 21, 22, 23] as [UInt8] { #expect(progress([type, 3, 3, 0x40, 1]) == .tooLarge) }
  }

  @Test func `A hello in the form of SSL 2 is passed on when it is complete`() {
    let bytes: [UInt8] = [0x80, 40, 1, 3, 3] + pattern(37)
    for count in 0..<bytes.count { #expect(progress(Array(bytes.prefix(count))) == .incomplete) }
    #expect(isComplete(bytes))
    #expect(progress([0xc0, 0, 1, 3, 3]) == .incomplete && progress([0xc0, 1, 1, 3, 3]) == .tooLarge)
    for length in 0..<9 as Range<UInt8> { #expect(progress([0x80, length, 1, 3, 3]) == .noHello(5)) }
    // A second hello cannot have it.
    #expect(progress([0x80, 3, 1, 0, 0], isRetry: true) == .noHello(5))
    #expect(progress([0x80, 40, 1, 3, 3], isRetry: true) == .noHello(5))
  }

  @Test func `Records before a second hello are passed on one by one, and do not count to its size`() throws {
    let change: [UInt8] = [20, 3, 3, 0, 1, 1]
    let early = [23, 3, 3, 0x40, 0] + pattern(16_384)
    var bytes = try change + early + early + hello()
    for record in [change, early, early] {
      for count in [0, 1, 5, record.count - 1] {
        #expect(progress(Array(bytes.prefix(count)), isRetry: true) == .incomplete)
      }
      #expect(progress(bytes, isRetry: true) == .before(record.count))
      bytes.removeFirst(record.count)
    }
    #expect(isComplete(bytes, isRetry: true))
    #expect(progress([22, 3, 3, 0, 4, 1, 2, 0, 0], isRetry: true) == .tooLarge)
  }
}
