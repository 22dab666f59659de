import NIOCore
import NIOExtras
import NIOPosix
import ServerSupport

/// A server on SwiftNIO that takes lines or messages apart with the decoders of NIOExtras: one event loop, a handler in the
/// pipeline, receive buffers of 64 KiB.
///
/// At the end of the stream it answers with how many there were, and the sum of their bytes.
@main
struct NIOFraming {
  enum Mode: String {
    case lines, messages
  }

  /// What a line or message becomes: a slice of the receive buffer, which is what the decoders make, or a `String`.
  enum Form: String {
    case buffer, string
  }

  private static let bufferSize = 65536

  static func main() async throws {
    var arguments = Arguments(usage: "nio-framing --mode lines|messages [--form buffer|string] [PORT]")
    let mode = arguments.take("--mode", or: Mode.lines)
    let form = arguments.take("--form", or: Form.buffer)
    let port = arguments.port()
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let channel = try await ServerBootstrap(group: group)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
      .childChannelOption(.recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: bufferSize))
      // Its end is where the answer begins.
      .childChannelOption(.allowRemoteHalfClosure, value: true)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          let pipeline = channel.pipeline.syncOperations
          switch mode {
          case .lines: try pipeline.addHandler(ByteToMessageHandler(LineBasedFrameDecoder()))
          case .messages:
            try pipeline.addHandler(ByteToMessageHandler(LengthFieldBasedFrameDecoder(lengthFieldLength: .four)))
          }
          try pipeline.addHandler(TallyHandler(form))
        }
      }
      .bind(host: "127.0.0.1", port: Int(port)).get()
    guard let address = channel.localAddress, let port = address.port else { return }
    printError("listening on 127.0.0.1:\(port)")
    try await channel.closeFuture.get()
  }
}

/// Counts what the decoder makes.
private final class TallyHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private let form: NIOFraming.Form
  private var tally = Tally()

  init(_ form: NIOFraming.Form) {
    self.form = form
  }

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    let frame = unwrapInboundIn(data)
    switch form {
    case .buffer: tally.add(frame.readableBytesUInt8Span)
    case .string: tally.add(String(buffer: frame).utf8.span)
    }
  }

  func userInboundEventTriggered(context: ChannelHandlerContext, event: Any) {
    if case .inputClosed? = event as? ChannelEvent {
      let answer = context.channel.allocator.buffer(string: tally.line)
      context.writeAndFlush(wrapOutboundOut(answer), promise: nil)
      context.close(promise: nil)
    }
    context.fireUserInboundEventTriggered(event)
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    printError("nio-framing: \(error)")
    context.close(promise: nil)
  }
}
