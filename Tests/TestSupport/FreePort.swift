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

/// Where the free ports of a process begin. Processes that start one after the other begin far apart: the factor is 22,000 divided by
/// the golden ratio.
package func firstPort(ofProcess processID: Int32) -> UInt16 { UInt16(10_000 + Int(processID) * 13_597 % 22_000) }

private let nextPort = Locked(firstPort(ofProcess: getpid()))
