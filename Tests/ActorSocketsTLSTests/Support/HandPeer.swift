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

  /// What it has to send.
  func output() -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: Self.room)
    let count = unsafe BIO_read(outer, &bytes, Int32(bytes.count))
    return Array(bytes.prefix(max(0, Int(count))))
  }

  /// What it has received.
  func input(_ bytes: [UInt8]) { _ = unsafe BIO_write(outer, bytes, Int32(bytes.count)) }

  /// Changes its keys, and asks the other end to do the same.
  func updateKey() {
    unsafe SSL_key_update(end.ssl, SSL_KEY_UPDATE_REQUESTED)
    unsafe SSL_do_handshake(end.ssl)
  }

  /// Asks for another handshake, which its own context would not allow.
  func renegotiate() {
    unsafe SSL_clear_options(end.ssl, copenssl_SSL_OP_NO_RENEGOTIATION)
    unsafe SSL_renegotiate(end.ssl)
    unsafe SSL_do_handshake(end.ssl)
  }

  /// Says that no more comes.
  func finish() { unsafe SSL_shutdown(end.ssl) }
}
