import ActorSockets
import Glibc
import SocketSystem
import TestSupport
import Testing

/// In processes of their own, because the directory belongs to the whole process.
@Suite struct RelativePathTests {
  @Test func `The file of a relative path is removed, although the program changed its directory`() async {
    await #expect(processExitsWith: .success) {
      try await within("all are closed") {
        let folder = try SocketFolder()
        // SAFETY (here and below): the text is valid for the call.
        #expect(unsafe chdir(folder.path) == 0)
        var configuration = TCPListener.Configuration()
        configuration.permissions = 0o600
        let listener = try TCPListener.bind(to: .unix(path: "stream"), configuration: configuration)
        let endpoint = try UDPEndpoint.bind(to: .unix(path: "./datagrams"))
        let bytes = try UDPEndpoint.bind(to: .address(.unix(UnixPath(bytes: [0xff]))))
        #expect(folder.names.count == 3)
        let client = try await TCPConnection.connect(to: .unix(path: "stream"))
        #expect(unsafe chdir("/") == 0)
        await listener.close()
        #expect(!folder.names.contains("stream"))
        await endpoint.close()
        await bytes.close()
        #expect(folder.names == [])
        await client.close()
      }
    }
  }

  @Test func `A stale socket at a relative path is replaced, and its file is removed`() async {
    await #expect(processExitsWith: .success) {
      try await within("it is closed") {
        let folder = try SocketFolder()
        #expect(unsafe chdir(folder.path) == 0)
        try RawSocket.bound(to: "stream").close()
        let listener = try TCPListener.bind(to: .unix(path: "stream"))
        #expect(unsafe chdir("/") == 0)
        await listener.close()
        #expect(folder.names == [])
      }
    }
  }
}
