import NIOCore
import NIOPosix
import NIOSSL
import ServerSupport

/// A TLS server on SwiftNIO and NIOSSL, tuned as its users tune it: one event loop, a handler in the pipeline.
@main
struct NIOTLSEcho {
  static func main() async throws {
    let options = Options()
    let context = try makeContext(options)
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let channel = try await ServerBootstrap(group: group)
      .serverChannelOption(.backlog, value: 4096)
      .serverChannelOption(.socketOption(.so_reuseaddr), value: 1)
      .childChannelOption(.tcpOption(.tcp_nodelay), value: 1)
      .childChannelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(NIOSSLServerHandler(context: context))
          try channel.pipeline.syncOperations.addHandler(handler(for: options.mode))
        }
      }
      .bind(host: "127.0.0.1", port: Int(options.port)).get()
    guard let address = channel.localAddress, let port = address.port else { return }
    printError("listening on 127.0.0.1:\(port)")
    try await channel.closeFuture.get()
  }

  private static func makeContext(_ options: Options) throws -> NIOSSLContext {
    var configuration = TLSConfiguration.makeServerConfiguration(
      certificateChain: try NIOSSLCertificate.fromPEMFile(options.certificate).map { .certificate($0) },
      privateKey: .privateKey(try NIOSSLPrivateKey(file: options.key, format: .pem))
    )
    configuration.minimumTLSVersion = .tlsv13
    return try NIOSSLContext(configuration: configuration)
  }

  private static func handler(for mode: Mode) -> any ChannelHandler {
    switch mode {
    case .echo: EchoHandler()
    case .sink: SinkHandler()
    case .source: SourceHandler()
    }
  }
}

/// Writes what it reads, and flushes when a read is over.
private final class EchoHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    context.write(data, promise: nil)
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    context.flush()
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

/// From the first byte it reads on: writes blocks as long as the channel takes them.
private final class SourceHandler: ChannelInboundHandler {
  typealias InboundIn = ByteBuffer
  typealias OutboundOut = ByteBuffer

  private static let blockSize = 16384
  /// Byte i of every block is i modulo 251: the load generator compares.
  private let block = ByteBuffer(bytes: (0..<blockSize).map { UInt8($0 % 251) })
  private var wasAsked = false

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    wasAsked = true
    writeBlocks(context)
  }

  func channelWritabilityChanged(context: ChannelHandlerContext) {
    if wasAsked { writeBlocks(context) }
    context.fireChannelWritabilityChanged()
  }

  func errorCaught(context: ChannelHandlerContext, error: any Error) {
    context.close(promise: nil)
  }

  private func writeBlocks(_ context: ChannelHandlerContext) {
    while context.channel.isActive && context.channel.isWritable {
      context.writeAndFlush(wrapOutboundOut(block), promise: nil)
    }
  }
}

/// What is done with the bytes of a connection.
private enum Mode: String {
  case echo, sink, source
}

/// What the command line asks for.
private struct Options {
  let certificate: String
  let key: String
  let mode: Mode
  /// 0 lets the kernel choose.
  let port: UInt16

  init() {
    var arguments = Arguments(usage: "nio-tls-echo --certificate FILE --key FILE [--mode echo|sink|source] [PORT]")
    certificate = arguments.take("--certificate")
    key = arguments.take("--key")
    mode = arguments.take("--mode", or: .echo)
    port = arguments.port()
  }
}
