import NIOCore
import NIOPosix
import ServerSupport

/// A UDP echo server on SwiftNIO, tuned as its users tune it: one event loop, reads and writes in batches.
@main
struct NIOUDPEcho {
  private static let datagramsPerRead = 32
  private static let largestDatagram = 2048

  static func main() async throws {
    let requested = Arguments(usage: "nio-udp-echo [PORT]").port()
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let channel = try await DatagramBootstrap(group: group)
      // recvmmsg: the allocator's buffer is divided among the datagrams of a read.
      .channelOption(.datagramVectorReadMessageCount, value: datagramsPerRead)
      .channelOption(
        .recvAllocator, value: FixedSizeRecvByteBufferAllocator(capacity: datagramsPerRead * largestDatagram)
      )
      .channelInitializer { channel in
        channel.eventLoop.makeCompletedFuture {
          try channel.pipeline.syncOperations.addHandler(EchoHandler())
        }
      }
      .bind(host: "127.0.0.1", port: Int(requested)).get()
    guard let address = channel.localAddress, let port = address.port else { return }
    printError("listening on 127.0.0.1:\(port)")
    try await channel.closeFuture.get()
  }
}

/// Writes what it reads, and flushes when a read is over: all datagrams of a read leave with one sendmmsg.
private final class EchoHandler: ChannelInboundHandler {
  typealias InboundIn = AddressedEnvelope<ByteBuffer>
  typealias OutboundOut = AddressedEnvelope<ByteBuffer>

  func channelRead(context: ChannelHandlerContext, data: NIOAny) {
    // The address of an envelope that came is its sender's; of one that goes, its receiver's.
    context.write(data, promise: nil)
  }

  func channelReadComplete(context: ChannelHandlerContext) {
    context.flush()
  }
}
