import ActorSockets
import SocketSystem
import TestSupport
import Testing

/// Names of unix sockets are bytes, which need not be UTF-8.
@Suite(.conformance, .endsInTime) struct UnixNameTests {
  /// A name that begins in its own way, so that no two tests share it.
  struct Name: CustomTestStringConvertible {
    let isAbstract: Bool
    let end: [UInt8]
    var testDescription: String { "\(isAbstract ? "abstract" : "path") \(end)" }

    static let all: [Name] = {
      let ends: [[UInt8]] = [[0xff], [0xfe], [0xc3, 0x28], [0xed, 0xa0, 0x80], Array("\u{e9}".utf8)]
      return ends.map { Name(isAbstract: true, end: $0) } + ends.map { Name(isAbstract: false, end: $0) }
    }()

    func path(in folder: SocketFolder, _ end: [UInt8]) throws -> UnixPath {
      var bytes: [UInt8] = isAbstract ? [0] : []
      bytes += folder("name-").utf8
      return try UnixPath(bytes: bytes + end)
    }
  }

  @Test(arguments: Name.all)
  func `A reply goes to exactly the bytes of the name that the datagram came from`(name: Name) async throws {
    let folder = try SocketFolder()
    let path = try name.path(in: folder, name.end)
    let server = try DatagramTransport.unix.bind()
    let client = try UDPEndpoint.bind(to: .address(.unix(path)), reactor: ConformanceReactor.current)
    // What the name would be as text.
    let repaired = try name.path(in: folder, Array(String(decoding: name.end, as: UTF8.self).utf8))
    let decoy =
      repaired == path
      ? nil : try UDPEndpoint.bind(to: .address(.unix(repaired)), reactor: ConformanceReactor.current)
    try await client.send([1], to: DatagramTransport.unix.address(of: server))
    let datagram = try await server.receive()
    #expect(datagram.remoteAddress == .unix(path) && client.localAddress == .unix(path))
    try await server.send(datagram.reply([2]))
    #expect(try await client.receive().bytes == [2])
    if let decoy { await expectError(.timedOut) { _ = try await decoy.receive(timeout: .zero) } }
    try await server.connect(to: .address(.unix(path)))
    try await server.send([3])
    #expect(try await client.receive().bytes == [3])
    for endpoint in [server, client, decoy].compactMap({ $0 }) { await endpoint.close() }
    #expect(FileKind(at: path, followingLinks: false) == nil)
  }

  @Test(arguments: Name.all)
  func `A server listens at exactly the bytes of its name, and removes exactly its file`(name: Name)
    async throws
  {
    let folder = try SocketFolder()
    let path = try name.path(in: folder, name.end)
    let reactor = ConformanceReactor.current
    var configuration = TCPListener.Configuration()
    for _ in 0..<2 {
      configuration.permissions = 0o600
      let listener = try TCPListener.bind(to: .address(.unix(path)), configuration: configuration, reactor: reactor)
      #expect(listener.localAddresses == [.unix(path)])
      let client = try await TCPConnection.connect(to: .address(.unix(path)), reactor: reactor)
      #expect(client.remoteAddress == .unix(path))
      let server = try await listener.accept()
      try await client.write([1])
      #expect(try await server.read(exactly: 1) == [1])
      async let closed: Void = server.close()
      await client.close()
      await closed
      await listener.close()
      #expect(FileKind(at: path, followingLinks: false) == nil)
    }
  }
}
