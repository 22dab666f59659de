import ActorSockets
import Glibc
import SocketSystem
import TestSupport
import Testing

@Suite(.endsInTime, .tags(.manualMemory)) struct PeerCredentialsTests {
  private let own = PeerCredentials(processID: getpid(), userID: geteuid(), groupID: getegid())

  @Test(arguments: ["", "@"])
  func `Both ends of a unix connection know who the other is`(prefix: String) async throws {
    let folder = try SocketFolder()
    let endpoint = Endpoint.unix(path: prefix + folder())
    let listener = try TCPListener.bind(to: endpoint)
    let client = TCPConnection(to: endpoint)
    #expect(try await client.peerCredentials() == own)
    let server = try await listener.accept()
    #expect(try await server.peerCredentials() == own)
    // The credentials that the kernel took down stay, also when the peer is gone.
    await client.abort()
    #expect(try await server.read() == nil)
    #expect(try await server.peerCredentials() == own)
    await server.close()
    await expectError(.closed) { _ = try await server.peerCredentials() }
  }

  @Test func `An adopted pair knows who made it`() async throws {
    let (connection, far) = try StreamSocket.unix.connection()
    #expect(try await connection.peerCredentials() == own)
    far.close()
  }

  @Test func `A user that gave up its rights is known by what it is now`() async {
    await #expect(processExitsWith: .success) {
      let folder = try SocketFolder()
      let listener = try TCPListener.bind(to: .unix(path: folder()), configuration: .init { $0.permissions = 0o666 })
      if getuid() == 0 { #expect(setegid(65_533) == 0 && seteuid(65_534) == 0) }
      let client = try await TCPConnection.connect(to: .unix(path: folder()))
      let (user, group) = (geteuid(), getegid())
      _ = seteuid(getuid())
      let credentials = try await listener.accept().peerCredentials()
      #expect(credentials == PeerCredentials(processID: getpid(), userID: user, groupID: group))
      await client.abort()
    }
  }

  @Test func `A TCP connection has no peer credentials`() async throws {
    let (connection, peer) = try RawSocket.peerOfConnection()
    let error = await expectError(.invalidArgument) { _ = try await connection.peerCredentials() }
    #expect(error.description.contains("only a connected unix socket"), "\(error)")
    peer.close()
  }
}
