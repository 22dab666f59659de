import Glibc
import SocketSystem

/// A port of the loopback addresses on which no socket listens, for servers that cannot choose one, and for connections that are to be
/// refused.
///
/// It is below the ports that the kernel gives to connections, ip(7): a connection of another program could take one of those
/// before the server does. Test programs that run at the same time begin at different ports.
package func freePort() throws -> UInt16 {
  while true {
    let port = nextPort.withLock { port in
      port = port < 32_000 ? port + 1 : 10_000
      return port
    }
    if let socket = try? RawSocket.listening(on: .ipv4(.loopback, port: port)) {
      socket.close()
      return port
    }
  }
}

private let nextPort = Locked(UInt16(10_000 + getpid() % 22_000))
