import FlyingSocks
import Foundation
import ServerSupport

/// A server on FlyingSocks, whose sockets are awaited in its epoll pool: a task for each connection, as in its own HTTP server.
@main
struct FlyingEcho {
  /// Reads are of at most 4 KiB all the same: the library's own limit.
  private static let readSize = 65536
  /// Its default is 20, for a server with few connections.
  private static let eventsPerWait = 256

  static func main() async throws {
    var arguments = Arguments(usage: "flying-echo [--mode echo|sink] [PORT]")
    let mode = arguments.take("--mode", or: StreamMode.echo)
    let port = arguments.port()

    let listener = try listen(at: port)
    let pool = SocketPool.ePoll(maxEvents: eventsPerWait)
    try await pool.prepare()
    try await withThrowingTaskGroup { group in
      group.addTask { try await pool.run() }
      group.addTask { try await accept(AsyncSocket(socket: listener, pool: pool), mode) }
      try await group.next()
    }
  }

  private static func listen(at port: UInt16) throws -> Socket {
    let socket = try Socket(domain: AF_INET)
    try socket.setValue(true, for: .localAddressReuse)
    try socket.bind(to: .inet(ip4: "127.0.0.1", port: port))
    try socket.listen(maxPendingConnection: 4096)
    if case .ip4(let host, let port) = try socket.sockname() {
      printError("listening on \(host):\(port)")
    }
    return socket
  }

  private static func accept(_ listener: AsyncSocket, _ mode: StreamMode) async throws {
    let noDelay = BoolSocketOption(level: Int32(IPPROTO_TCP), name: TCP_NODELAY)
    try await withThrowingDiscardingTaskGroup { group in
      for try await connection in listener.sockets {
        try connection.socket.setValue(true, for: noDelay)
        group.addTask { await handle(connection, mode) }
      }
    }
  }

  /// The end of a connection is an error like others: it ends, and no other with it.
  private static func handle(_ connection: AsyncSocket, _ mode: StreamMode) async {
    do {
      while true {
        let bytes = try await connection.read(atMost: readSize)
        if mode == .echo { try await connection.write(Data(bytes)) }
      }
    } catch {
      try? connection.close()
    }
  }
}
