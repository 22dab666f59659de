import ActorSockets
import ActorSocketsTesting
import Foundation
import Glibc
import TestSupport
import Testing

@testable import ActorSocketsTLS

@Suite(.endsInTime) struct IdleClientTests {
  enum Sent: String, CaseIterable, CustomTestStringConvertible {
    case nothing, oneByte
    case helloWithoutItsLastByte
    /// Nine bytes that announce the longest hello that OpenSSL takes.
    case announcement
    /// The same in the form of SSL 2.
    case oldAnnouncement
    /// The longest hello that the server takes, without its last byte.
    case longHelloWithoutItsLastByte
    case hello
    /// A hello that makes the server ask for a second one, and the announcement of a long second one.
    case announcementOfSecondHello
    /// Some versions of OpenSSL pass these over, or wait for the rest: see `NoHello`.
    case emptyRecord, announcementBehindEmptyRecord, partOfAnotherMessage, emptyChange, announcementBehindWarning

    var testDescription: String { rawValue }

    /// The most bytes that the server keeps for such a client, without what the kernel keeps.
    var limit: Int {
      switch self {
      case .nothing, .oneByte, .oldAnnouncement, .helloWithoutItsLastByte: 6_000
      // The server has refused these clients; what it keeps belongs to the test.
      case .announcement, .announcementOfSecondHello, .announcementBehindWarning: 6_000
      case .emptyRecord, .announcementBehindEmptyRecord, .partOfAnotherMessage, .emptyChange: 6_000
      case .longHelloWithoutItsLastByte: 24_000
      // The engine: 56 KB with OpenSSL 3.0, 70 KB with 3.5.
      case .hello: 75_000
      }
    }

    func bytes(of client: TLSContext) throws -> [UInt8] {
      let hello = try EngineEnd.hello(of: client)
      switch self {
      case .nothing: return []
      case .oneByte: return [22]
      case .helloWithoutItsLastByte: return hello.dropLast()
      case .announcement: return [22, 3, 1, 0, 4, 1, 2, 0, 0]
      case .oldAnnouncement: return [0x80 | 0x3f, 0xff, 1, 3, 3]
      case .longHelloWithoutItsLastByte: return [22, 3, 1, 0x40, 0, 1, 0, 0x3f, 0xfc] + pattern(16_379)
      case .hello: return hello
      case .announcementOfSecondHello: return hello + [20, 3, 3, 0, 1, 1, 22, 3, 3, 0, 4, 1, 2, 0, 0]
      case .emptyRecord: return [22, 3, 1, 0, 0]
      case .announcementBehindEmptyRecord: return [22, 3, 1, 0, 0, 22, 3, 1, 0, 4, 1, 2, 0, 0]
      case .partOfAnotherMessage: return [22, 3, 1, 0, 1, 2]
      case .emptyChange: return [20, 3, 1, 0, 0]
      // The warning user_canceled.
      case .announcementBehindWarning:
        return hello + [20, 3, 3, 0, 1, 1, 21, 3, 3, 0, 2, 1, 90, 22, 3, 3, 0, 4, 1, 2, 0, 0]
      }
    }

    /// Whether the client offers a group that the server refuses, and one that it takes.
    var isAskedForSecondHello: Bool { self == .announcementOfSecondHello || self == .announcementBehindWarning }
  }

  /// Bytes that are not a hello. Some versions of OpenSSL pass them over, or wait for the rest.
  enum NoHello: String, CaseIterable, CustomTestStringConvertible {
    case emptyRecord, emptyChange, change, warning
    case partOfAnotherMessage, emptyRecordInHello, changeInHello, partOfOldHello
    case otherVersion

    var testDescription: String { rawValue }

    var bytes: [UInt8] {
      switch self {
      case .emptyRecord: [22, 3, 3, 0, 0]
      case .emptyChange: [20, 3, 3, 0, 0]
      case .change: [20, 3, 3, 0, 1, 1]
      case .warning: [21, 3, 3, 0, 2, 1, 90]
      case .partOfAnotherMessage: [22, 3, 3, 0, 1, 2]
      case .emptyRecordInHello: [22, 3, 3, 0, 1, 1, 22, 3, 3, 0, 0]
      case .changeInHello: [22, 3, 3, 0, 1, 1, 20, 3, 3, 0, 1, 1]
      case .partOfOldHello: [0x80, 3, 1, 0, 0]
      case .otherVersion: [22, 2, 0, 0, 1, 1]
      }
    }

    /// Whether OpenSSL may pass it over before a second hello. Then the server awaits that.
    var mayPrecedeSecondHello: Bool {
      switch self {
      case .emptyRecord, .emptyChange, .change, .warning: true
      case .partOfAnotherMessage, .emptyRecordInHello, .changeInHello, .partOfOldHello, .otherVersion: false
      }
    }
  }

  /// In a process of its own, so that nothing else takes memory meanwhile.
  @Test func `A client that stops before its hello is complete costs a server 6 KB and what it has sent`() async {
    let end = await #expect(processExitsWith: .success, observing: [\.standardOutputContent, \.standardErrorContent]) {
      await inOwnProcess {
        for sent in Sent.allCases {
          let each = try await within("all have sent", seconds: 120) { try await Self.bytesForEach(sent) }
          print("\(sent): \(each) bytes for each client")
          if each > sent.limit { throw Overdue(description: "\(sent): a client costs \(each) bytes") }
        }
      }
      // The process ends without the address sanitizer's look for leaks, because connections still close. If such an object had a weak
      // reference before, only its header refers to the side table of that, in a form that the sanitizer does not know as a pointer, and
      // the table would be reported. To leave such tables out of all reports would hide objects that are lost together with them.
      fflush(nil)
      _exit(EXIT_SUCCESS)
    }
    if let end { print(String(decoding: end.standardOutputContent + end.standardErrorContent, as: UTF8.self)) }
  }

  private static func bytesForEach(_ sent: Sent) async throws -> Int {
    removeThrowHandler()
    let count = 100
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    let port = listener.localAddresses[0].port ?? 0
    let groups: (TLSGroups, TLSGroups)? = sent.isAskedForSecondHello ? ("P-384:P-256", "P-256") : nil
    let server = try Contexts.server { $0.groups = groups?.1 }
    let bytes = try sent.bytes(of: Contexts.client { $0.groups = groups?.0 })
    var sockets: [RawSocket] = []
    var connections: [TLSConnection] = []
    func connect() async throws {
      let socket = try RawSocket.connected(to: .ipv4(.loopback, port: port))
      let plain = try await listener.accept()
      connections.append(plain.startTLS(server, as: .server))
      if !bytes.isEmpty { try socket.send(bytes) }
      sockets.append(socket)
      try await eventually("the server has what was sent") {
        let received = await plain.metrics.bytesReceived
        let state = await plain.state
        return received == bytes.count || state != .open
      }
    }
    sockets.reserveCapacity(2 * count)
    connections.reserveCapacity(2 * count)
    for _ in 0..<20 { try await connect() }
    let before = try allocatedBytes()
    for _ in 0..<count { try await connect() }
    let each = (try allocatedBytes() - before) / count
    for connection in connections { await connection.abort() }
    await listener.close()
    return each
  }

  @Test(arguments: [0, 1, 9, 100], CarrierKind.allCases)
  func `A hello is taken from wherever it was cut, also as the bytes from before the handshake`(
    first: Int, carrier: CarrierKind
  ) async throws {
    for isEarly in [false, true] {
      let pair = try await carrier.pair()
      let engine = try EngineEnd(greeting: Contexts.client())
      let hello = engine.takeOutput()
      if isEarly {
        // Both are read together.
        try await pair.client.write(Array("go\n".utf8) + hello.prefix(first))
        _ = try await pair.server.read(until: .lf)
      }
      let server = pair.server.startTLS(
        try Contexts.server(), as: .server, bufferedBytes: isEarly ? .asHandshake : .refused)
      #expect(await server.state == .connecting && !"\(server)".isEmpty)
      if !isEarly { try await pair.client.write(Array(hello.prefix(first))) }
      for byte in hello.dropFirst(first) { try await pair.client.write([byte]) }
      try await engine.handshake(over: pair.client)
      engine.send(pattern(1_000))
      try await pair.client.write(engine.takeOutput())
      #expect(try await server.read(exactly: 1_000) == pattern(1_000))
      #expect(try await server.session.serverName == "server.test")
      await server.abort()
      await pair.client.abort()
    }
  }

  @Test(arguments: [0, 1, 9, 100], CarrierKind.allCases)
  func `A client that ends or is reset before its hello is complete is one that closed during the handshake`(
    count: Int, carrier: CarrierKind
  ) async throws {
    for aborts in [false, true] {
      let pair = try await carrier.pair()
      let server = pair.server.startTLS(try Contexts.server(), as: .server)
      let hello = try Sent.hello.bytes(of: Contexts.client())
      try await pair.client.write(Array(hello.prefix(count)))
      if aborts { await pair.client.abort() } else { try await pair.client.finishWriting() }
      // A unix socket has no reset.
      if aborts, carrier != .unix {
        await expectError(.connectionReset) { try await server.handshake() }
      } else {
        await expectTLSError(.closedDuringHandshake) { try await server.handshake() }
        if !aborts { #expect(try await pair.client.readToEnd().isEmpty) }
      }
      await pair.client.abort()
    }
  }

  @Test(arguments: [false, true], CarrierKind.allCases)
  func `A hello that is too large is refused with an alert, the second one too`(
    isSecond: Bool, carrier: CarrierKind
  ) async throws {
    let pair = try await carrier.pair()
    let context = try Contexts.server { $0.groups = isSecond ? "P-256" : nil }
    let server = pair.server.startTLS(context, as: .server)
    let client = try Contexts.client { $0.groups = "P-384:P-256" }
    if isSecond {
      // The first byte of the second hello comes with the first one.
      try await pair.client.write(Sent.hello.bytes(of: client) + Sent.announcement.bytes(of: client).prefix(1))
      // The request for a second hello, and a change of the cipher.
      #expect(try await pair.client.read(exactly: 6).last == 2)
    }
    try await pair.client.write(Array(Sent.announcement.bytes(of: client).dropFirst(isSecond ? 1 : 0)))
    let error = await expectTLSError(.protocolError) { try await server.handshake() }
    #expect(error.isCausedByPeer && error.alert == "illegal_parameter", "\(error)")
    #expect(error.description.contains("16384"))
    #expect(try await pair.client.readToEnd().suffix(7) == [21, 3, 3, 0, 2, 2, 47])
    await pair.client.close()
  }

  @Test(arguments: NoHello.allCases, CarrierKind.allCases)
  func `A client that sends something else than a hello is refused at once, and does not wait for the time-out`(
    sent: NoHello, carrier: CarrierKind
  ) async throws {
    for isSecond in [false, true] {
      let pair = try await carrier.pair()
      let context = try Contexts.server {
        $0.groups = isSecond ? "P-256" : nil
        $0.handshakeTimeout = .seconds(1_000)
      }
      let server = pair.server.startTLS(context, as: .server)
      if isSecond {
        let client = try Contexts.client { $0.groups = "P-384:P-256" }
        try await pair.client.write(Sent.hello.bytes(of: client))
      }
      // Behind bytes that may precede a second hello, the client announces one that is too large.
      let isPassedOver = isSecond && sent.mayPrecedeSecondHello
      try await pair.client.write(sent.bytes + (isPassedOver ? [22, 3, 3, 0, 4, 1, 2, 0, 0] : []))
      let error = await #expect(throws: TLSError.self) { try await server.handshake() }
      #expect([.protocolError, .notTLS].contains(error?.code) && error?.isCausedByPeer == true, "\(error as Any)")
      let alert = try await pair.client.readToEnd().suffix(7)
      // OpenSSL sends no alert to a client that does not speak TLS.
      let hasAlert = sent != .otherVersion || isSecond
      #expect(!hasAlert || alert.first == 21 && alert.dropLast().last == 2, "\(alert)")
      await pair.client.close()
    }
  }

  @Test(arguments: CarrierKind.allCases)
  func `An announcement in the last record of a hello that is answered with a request for another is refused`(
    carrier: CarrierKind
  ) async throws {
    let pair = try await carrier.pair()
    let server = pair.server.startTLS(try Contexts.server { $0.groups = "P-256" }, as: .server)
    let hello = try Sent.hello.bytes(of: Contexts.client { $0.groups = "P-384:P-256" })
    try await pair.client.write(handshakeRecords(of: hello[5...] + [1, 2, 0, 0], size: 16_384))
    await expectTLSError(.protocolError) { try await server.handshake() }
    #expect(try await pair.client.readToEnd().suffix(7) == [21, 3, 3, 0, 2, 2, 10])
    await pair.client.close()
  }

  @Test(arguments: CarrierKind.allCases)
  func `A client that has filled a record with early data may send a long second hello`(
    carrier: CarrierKind
  ) async throws {
    let pair = try await carrier.pair()
    let server = pair.server.startTLS(try Contexts.server { $0.groups = "P-256" }, as: .server)
    let client = try Contexts.client {
      $0.groups = "P-384:P-256"
      $0.applicationProtocols = (0..<8).map { "\($0)" + String(repeating: "x", count: 200) }
    }
    let engine = try EngineEnd(greeting: client)
    let early = [23, 3, 3, 0x40, 0] + pattern(16_384)
    try await pair.client.write(Self.offeringEarlyData(engine.takeOutput()) + early)
    func nextRecord() async throws -> [UInt8] {
      let header = try await pair.client.read(exactly: 5)
      return try await header + pair.client.read(exactly: Int(header[3]) << 8 | Int(header[4]))
    }
    // The request for a second hello, and a change of the cipher.
    engine.take(try await nextRecord() + nextRecord())
    let second = engine.takeOutput()
    #expect(second.count > ClientHello.recordLimit - early.count)
    try await pair.client.write(second)
    // The server's own hello, and not an alert. The client cannot go on: its first hello was changed on the way.
    #expect(try await nextRecord().prefix(6) == [22, 3, 3, 0, 0x9b, 2])
    await server.abort()
    await pair.client.abort()
  }

  /// Adds an offer of early data to a hello, with a ticket that the server does not know.
  private static func offeringEarlyData(_ hello: [UInt8]) -> [UInt8] {
    // After the headers, the version and the random: the session, the cipher suites, the compression methods.
    var start = 5 + 4 + 2 + 32
    start += 1 + Int(hello[start])
    start += 2 + (Int(hello[start]) << 8 | Int(hello[start + 1]))
    start += 1 + Int(hello[start])
    // early_data, and pre_shared_key with an identity of 32 bytes and a binder of 32 bytes.
    let identities = [0, 38, 0, 32] + [UInt8](repeating: 7, count: 32 + 4)
    let binders = [0, 33, 32] + [UInt8](repeating: 7, count: 32)
    let extensions = hello[(start + 2)...] + [0, 42, 0, 0, 0, 41, 0, 75] + identities + binders
    func length(_ count: Int) -> [UInt8] { [UInt8(count >> 8), UInt8(count & 0xff)] }
    let body = hello[9..<start] + length(extensions.count) + extensions
    return handshakeRecords(of: [1, 0] + length(body.count) + body, size: 16_384)
  }

  @Test func `A client whose first group is refused sends a second hello and is served`() async throws {
    let pair = try await CarrierKind.tcp.pair()
    let server = pair.server.startTLS(try Contexts.server { $0.groups = "P-256" }, as: .server)
    let client = pair.client.startTLS(
      try Contexts.client { $0.groups = "P-384:P-256" }, as: .client(serverName: "server.test"))
    try await client.write(pattern(100))
    #expect(try await server.read(exactly: 100) == pattern(100))
    #expect(try await server.session.group == "secp256r1")
    await close(client, server)
  }

  @Test func `A server without a certificate says so before its client sends anything`() async throws {
    let pair = try await CarrierKind.inMemory.pair()
    let server = pair.server.startTLS(try Contexts.client(), as: .server)
    await expectTLSError(.noIdentity) { try await server.handshake() }
    await pair.client.abort()
  }
}
