import ActorSockets
import COpenSSL
import Testing

@testable import ActorSocketsTLS

/// A peer whose bytes a test makes by hand, and so says what comes in one piece.
@safe final class HandPeer {
  let end: End
  let stream: any ByteStream
  private let outer: OpaquePointer
  private static let room = 1 << 20

  // SAFETY (in this type): each half of the pair is freed once, one by the end, the other here.
  init(
    over stream: any ByteStream, _ context: TLSContext, as role: TLSRole = .client(serverName: "example.org")
  ) throws {
    var one: OpaquePointer?
    var other: OpaquePointer?
    unsafe BIO_new_bio_pair(&one, Self.room, &other, Self.room)
    self.stream = stream
    unsafe outer = try #require(unsafe other)
    end = try unsafe End(context, role, over: one)
  }

  deinit { unsafe BIO_free(outer) }

  func handshake() async throws {
    while true {
      let progress = end.handshake()
      let bytes = output()
      if !bytes.isEmpty { try await stream.write(bytes) }
      switch progress {
      case .done: return
      case .waiting: input(try #require(await stream.read()))
      case .asking: throw TLSError(.rejected)
      case .failed(let error): throw error
      }
    }
  }

  func output() -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: Self.room)
    let count = unsafe BIO_read(outer, &bytes, Int32(bytes.count))
    return Array(bytes.prefix(max(0, Int(count))))
  }

  func input(_ bytes: [UInt8]) { _ = unsafe BIO_write(outer, bytes, Int32(bytes.count)) }

  /// Says that no more comes.
  func finish() { end.finish() }

  /// Sends what the end has made.
  func flush() async throws { try await stream.write(output()) }
}
