import NIOCore
import NIOPosix
import ServerSupport

private typealias Connection = NIOAsyncChannel<ByteBuffer, ByteBuffer>

extension NIOEcho {
  static func serveWithTasks(_ bootstrap: ServerBootstrap, _ mode: StreamMode, port: Int) async throws {
    let listener = try await bootstrap.bind(host: "127.0.0.1", port: port) { channel in
      channel.eventLoop.makeCompletedFuture {
        try Connection(wrappingChannelSynchronously: channel)
      }
    }
    announce(listener.channel)
    try await withThrowingDiscardingTaskGroup { group in
      try await listener.executeThenClose { connections in
        for try await connection in connections {
          group.addTask { await handle(connection, mode) }
        }
      }
    }
  }

  /// A connection that fails ends, and no other with it.
  private static func handle(_ connection: Connection, _ mode: StreamMode) async {
    try? await connection.executeThenClose { incoming, outgoing in
      switch mode {
      case .echo:
        for try await bytes in incoming { try await outgoing.write(bytes) }
      // The other style does that.
      case .sink, .fanout:
        for try await _ in incoming {}
      }
    }
  }
}
