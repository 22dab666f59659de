import NIOCore
import NIOPosix
import ServerSupport

extension NIOEcho {
  static func serveWithHandlers(_ bootstrap: ServerBootstrap, _ mode: StreamMode, port: Int) async throws {
    let everybody = Everybody()
    let channel =
      try await bootstrap
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          switch mode {
          case .echo: try channel.pipeline.syncOperations.addHandler(EchoHandler())
          case .sink: try channel.pipeline.syncOperations.addHandler(SinkHandler())
          case .fanout: try channel.pipeline.syncOperations.addHandler(FanoutHandler(everybody))
          }
        }
      }
      .bind(host: "127.0.0.1", port: port).get()
    announce(channel)
    try await channel.closeFuture.get()
  }
}

/// Writes what it reads, and flushes when a read is over. It does not read on while its peer does not read. (SwiftNIO has a
/// handler for that; in this one it costs a call less.)
private final class EchoHandler: ChannelInboundHandler, ChannelOutboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private var hasPendingRead = false

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    context.write(data, promise: nil)
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    context.flush()
  }

  func read(context: ChannelHandlerContext) {
    if context.channel.isWritable {
      context.read()
    } else {
      hasPendingRead = true
    }
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    if hasPendingRead && context.channel.isWritable {
      hasPendingRead = false
      context.read()
    }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.close(promise: nil)
  }
}

/// All channels; they have one event loop, on which this is used only.
private final class Everybody: @unchecked Sendable {
  var channels: [ObjectIdentifier: any Channel] = [:]
}

/// What one channel reads goes to all.
private final class FanoutHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  private let everybody: Everybody

  init(_ everybody: Everybody) { self.everybody = everybody }

  func channelActive(context: ChannelHandlerContext) {
    everybody.channels[ObjectIdentifier(context.channel)] = context.channel
    context.fireChannelActive()
  }

  func channelInactive(context: ChannelHandlerContext) {
    everybody.channels[ObjectIdentifier(context.channel)] = nil
    context.fireChannelInactive()
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let bytes = unwrapInboundIn(data)
    for channel in everybody.channels.values { channel.writeAndFlush(bytes, promise: nil) }
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.close(promise: nil)
  }
}

/// Reads, and does nothing with it.
private final class SinkHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {}

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.close(promise: nil)
  }
}
