import NIOCore
import NIOPosix
import ServerSupport

/// A server on SwiftNIO, with one event loop, in the two ways in which its users write one.
@main
struct NIOEcho {
  /// How a connection is handled.
  enum Style: String {
    /// By a handler in the channel's pipeline, on the event loop.
    case handler
    /// By a task for each connection, with the channel as asynchronous sequences.
    case async
  }

  static func main() async throws {
    var arguments = Arguments(usage: "nio-echo [--as handler|async] [--mode echo|sink|fanout] [PORT]")
    let style = arguments.take("--as", or: Style.handler)
    let mode = arguments.take("--mode", or: StreamMode.echo)
    let port = Int(arguments.port())

    let bootstrap = ServerBootstrap(group: MultiThreadedEventLoopGroup(numberOfThreads: 1))
      .serverChannelOption(.backlog, value: 4096)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
    switch style {
    case .handler: try await serveWithHandlers(bootstrap, mode, port: port)
    case .async: try await serveWithTasks(bootstrap, mode, port: port)
    }
  }

  static func announce(_ channel: any Channel) {
    guard let port = channel.localAddress?.port else { return }
    printError("listening on 127.0.0.1:\(port)")
  }
}
