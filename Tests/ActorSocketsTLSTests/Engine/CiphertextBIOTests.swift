import TestSupport
import Testing

@testable import ActorSocketsTLS

/// The functions of the BIO are called as OpenSSL calls them.
@Suite(.tags(.pure)) struct CiphertextBIOTests {
  /// Takes at most `room` bytes.
  private final class Sink: CiphertextSink {
    var room: Int
    var taken: [UInt8] = []
    var calls = 0

    init(room: Int = .max) { self.room = room }

    func sendCiphertext(_ output: Span<UInt8>) -> Int {
      calls += 1
      let count = min(room, output.count)
      room -= count
      taken.append(copying: output.extracting(first: count))
      return count
    }
  }

  private func take(_ bio: CiphertextBIO, atMost count: Int = .max) -> [UInt8] {
    let sink = Sink(room: count)
    _ = bio.buffers.withOutput { sink.sendCiphertext($0) }
    return sink.taken
  }

  /// Returns how many of the bytes were read during the body.
  private func lend(_ bytes: [UInt8], to bio: CiphertextBIO, _ body: () -> Void) -> Int {
    unsafe bytes.withUnsafeBytes { lent in
      unsafe bio.buffers.lend(lent)
      body()
      return bio.buffers.takeBack()
    }
  }

  @Test func `Without room the rest waits in its order, and there is room again after some was sent`() throws {
    try OpenSSLSide.withBIO { bio, ssl in
      let bytes = pattern(CiphertextBuffers.outputLimit + 100)
      #expect(ssl.write(bytes) == CiphertextBuffers.outputLimit)
      #expect(ssl.write([1]) == nil)
      #expect(bio.buffers.outputRoom == 0)
      #expect(take(bio, atMost: 70) == pattern(70))
      #expect(bio.buffers.outputRoom == 70)
      #expect(ssl.write(Array(bytes.suffix(100))) == 70)
      #expect(take(bio) == pattern(CiphertextBuffers.outputLimit, from: 70))
      #expect(bio.buffers.hasOutput == false)
      #expect(ssl.write(Array(bytes.suffix(30))) == 30)
      #expect(take(bio) == pattern(30, from: bytes.count - 30))
    }
  }

  @Test func `Whatever a sink takes, the bytes leave in their order`() throws {
    for seed in 1...50 as ClosedRange<UInt64> {
      var random = SeededRandom(seed: seed)
      try OpenSSLSide.withBIO { bio, ssl in
        let sink = Sink(room: 0)
        var written = 0
        for _ in 0..<200 {
          sink.room = Bool.random(using: &random) ? 0 : Int.random(in: 0...40_000, using: &random)
          let count = Int.random(in: 1...20_000, using: &random)
          bio.buffers.beginWriting(count, to: sink)
          if Int.random(in: 0..<3, using: &random) == 0 {
            _ = bio.buffers.withOutput { sink.sendCiphertext($0) }
          } else {
            written += ssl.write(pattern(count, from: written)) ?? 0
          }
          bio.buffers.endWriting()
          #expect(sink.taken.count + bio.buffers.outputCount == written)
          #expect(bio.buffers.outputCount <= CiphertextBuffers.outputLimit)
        }
        sink.room = .max
        _ = bio.buffers.withOutput { sink.sendCiphertext($0) }
        #expect(sink.taken == pattern(written), "seed \(seed)")
      }
    }
  }

  @Test func `A sink gets nothing while earlier output is left`() throws {
    try OpenSSLSide.withBIO { bio, ssl in
      let sink = Sink(room: 3)
      bio.buffers.beginWriting(7, to: sink)
      #expect(ssl.write(pattern(5)) == 5)
      #expect(sink.taken == pattern(3) && sink.calls == 1)
      sink.room = .max
      #expect(ssl.write(pattern(2, from: 5)) == 2)
      #expect(sink.calls == 1)
      #expect(take(bio) == pattern(4, from: 3))
      // Also of a later call, and after all was sent.
      #expect(ssl.write(pattern(2)) == 2)
      #expect(sink.calls == 1 && bio.buffers.outputCount == 2)
      bio.buffers.endWriting()
      bio.buffers.beginWriting(2, to: sink)
      #expect(ssl.write(pattern(2, from: 2)) == 2)
      #expect(sink.calls == 1)
      bio.buffers.endWriting()
      #expect(take(bio) == pattern(4))
    }
  }

  @Test func `More than one record is put together, and a last one has room where others have not`() throws {
    try OpenSSLSide.withBIO { bio, ssl in
      let sink = Sink()
      bio.buffers.beginWriting(CiphertextBuffers.outputLimit, to: sink)
      #expect(ssl.write(pattern(CiphertextBuffers.outputLimit)) == CiphertextBuffers.outputLimit)
      bio.buffers.endWriting()
      #expect(sink.calls == 0)
      #expect(ssl.write([1]) == nil)
      bio.buffers.makeRoomForLastRecord()
      #expect(ssl.write([1, 2]) == 2)
      #expect(bio.buffers.outputCount == CiphertextBuffers.outputLimit + 2)
    }
  }

  @Test func `Lent bytes are read where they are, and none after they were taken back`() throws {
    try OpenSSLSide.withBIO { bio, ssl in
      #expect(ssl.read(1) == nil)
      let bytes = pattern(100)
      let count = lend(bytes, to: bio) {
        #expect(ssl.read(30) == pattern(30))
        #expect(ssl.read(40) == pattern(40, from: 30))
      }
      #expect(count == 70)
      #expect(bio.buffers.hasInput == false)
      #expect(ssl.read(1) == nil)
    }
  }

  @Test func `Bytes that were fed come before those that are lent, and the end comes last`() throws {
    try OpenSSLSide.withBIO { bio, ssl in
      #expect(bio.buffers.feed(pattern(10).span) == 10)
      #expect(ssl.read(4) == pattern(4))
      #expect(bio.buffers.feed(pattern(10, from: 10).span) == 10)
      let count = lend(pattern(5, from: 20), to: bio) { #expect(ssl.read(3) == pattern(3, from: 4)) }
      #expect(count == 0)
      bio.buffers.endInput()
      #expect(bio.buffers.feed(pattern(5, from: 20).span) == 0)
      #expect(ssl.read(100) == pattern(13, from: 7))
      #expect(ssl.read(1) == [])
    }
  }
}
