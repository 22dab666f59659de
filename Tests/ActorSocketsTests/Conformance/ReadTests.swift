import ActorSockets
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct ReadTests {
  @Test(arguments: Transport.allCases)
  func `A read of what there is brings at least a byte, and at the end nil`(transport: Transport) async throws {
    let pair = try await transport.pair()
    try await pair.client.write(Array("hello".utf8))
    let first = try #require(await pair.server.read(upTo: 2))
    #expect(first == Array("he".utf8))
    #expect(try await pair.server.read() == Array("llo".utf8))
    try await pair.client.finishWriting()
    for _ in 0..<3 { #expect(try await pair.server.read() == nil) }
  }

  @Test(arguments: Transport.allCases)
  func `A read of an exact length waits for the last byte`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let reading = Task.immediate { try await pair.server.read(exactly: 6) }
    for byte in "abcdef!".utf8 { try await pair.client.write([byte]) }
    #expect(try await reading.value == Array("abcdef".utf8))
    #expect(try await pair.server.read(exactly: 0) == [])
    #expect(try await pair.server.read() == Array("!".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `A read through a delimiter leaves what follows`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let reading = Task.immediate { try await pair.server.read(until: "--=--") }
    for byte in "a--=-b--=--c--=--".utf8 { try await pair.client.write([byte]) }
    #expect(try await reading.value == Array("a--=-b--=--".utf8))
    #expect(try await pair.server.read(until: "--=--") == Array("c--=--".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `A read into an array appends, and leaves the array as it was when it fails`(transport: Transport) async throws {
    let pair = try await transport.pair(sent: "abc\ndef\ngh")
    var bytes = Array("> ".utf8)
    try await pair.server.read(into: &bytes, exactly: 4)
    try await pair.server.read(into: &bytes, until: .lf)
    #expect(bytes == Array("> abc\ndef\n".utf8))
    await expectError(.endOfStream) { try await pair.server.read(into: &bytes, exactly: 3) }
    await expectError(.endOfStream) { try await pair.server.read(into: &bytes, until: .lf) }
    #expect(bytes == Array("> abc\ndef\n".utf8))
    #expect(try await pair.server.read(into: &bytes) == 2)
    #expect(try await pair.server.read(into: &bytes) == 0)
    #expect(bytes == Array("> abc\ndef\ngh".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `A read into memory of the caller fills its room`(transport: Transport) async throws {
    let pair = try await transport.pair(sent: "abcdef")
    let memory = UnsafeMutableBufferPointer<UInt8>.allocate(capacity: 4)
    defer { unsafe memory.deallocate() }
    var output = unsafe OutputSpan(buffer: memory, initializedCount: 0)
    while output.freeCapacity > 0 { #expect(try await pair.server.read(into: &output) > 0) }
    await expectError(.invalidArgument) { try await pair.server.read(into: &output) }
    let filled = unsafe output.finalize(for: memory)
    let first = unsafe Array(memory)
    #expect(filled == 4 && first == Array("abcd".utf8))
    var second = unsafe OutputSpan(buffer: memory, initializedCount: 0)
    #expect(try await pair.server.read(into: &second) == 2)
    #expect(try await pair.server.read(into: &second) == 0)
    let rest = unsafe second.finalize(for: memory)
    let last = unsafe Array(memory)
    #expect(rest == 2 && last == Array("efcd".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `Integers are read in both orders of bytes`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let server = pair.server
    try await pair.client.write([1, 2, 3, 4, 1, 2, 3, 4, 255, 255, 254, 0x80, 0, 0, 0, 0, 0, 0, 1])
    #expect(try await server.readInteger(as: UInt32.self) == 0x0102_0304)
    #expect(try await server.readInteger(as: UInt32.self, endianness: .little) == 0x0403_0201)
    #expect(try await server.readInteger(as: UInt8.self) == 255)
    #expect(try await server.readInteger(as: Int16.self) == -2)
    #expect(try await server.readInteger(as: Int64.self) == Int64.min + 1)
  }

  @Test(arguments: Transport.allCases)
  func `Peeking leaves the bytes, and shows nil at the end`(transport: Transport) async throws {
    let pair = try await transport.pair(sent: "peek")
    #expect(try await pair.server.peek(upTo: 1) == Array("p".utf8))
    #expect(try await pair.server.peek() == Array("peek".utf8))
    #expect(try await pair.server.read(exactly: 4) == Array("peek".utf8))
    #expect(try await pair.server.peek() == nil)
  }

  @Test(arguments: Transport.allCases)
  func `Taking what is buffered empties the stream without waiting`(transport: Transport) async throws {
    let pair = try await transport.pair()
    #expect(await pair.server.takeBuffered() == [])
    try await pair.client.write(Array("abc".utf8))
    _ = try await pair.server.peek()
    #expect(await pair.server.takeBuffered() == Array("abc".utf8))
    #expect(await pair.server.takeBuffered() == [])
    let reading = Task.immediate { try await pair.server.read(exactly: 4) }
    try await pair.client.write(Array("xyz".utf8))
    try await pair.server.hasBuffered(3)
    #expect(await pair.server.takeBuffered() == Array("xyz".utf8))
    try await pair.client.write(Array("1234".utf8))
    #expect(try await reading.value == Array("1234".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `A look at the bytes uses up what it says`(transport: Transport) async throws {
    let pair = try await transport.pair()
    try await pair.client.write(Array("abcdef".utf8))
    _ = try await pair.server.peek()
    let first = try await pair.server.withBytes { bytes, consumed in
      consumed = 2
      return bytes.count
    }
    #expect(first == 6)
    let second = try await pair.server.withBytes(upTo: 3, timeout: nil) { bytes, consumed in
      consumed = bytes.count
      return [UInt8](copying: bytes)
    }
    #expect(second == Array("cde".utf8))
    #expect(try await pair.server.read() == Array("f".utf8))
    try await pair.client.finishWriting()
    let last: Int? = try await pair.server.withBytes { bytes, _ in bytes.count }
    #expect(last == nil)
  }

  @Test(arguments: Transport.allCases)
  func `A look that uses nothing up is asked again when there is more`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let shown = Notes<Int>()
    let looking = Task.immediate {
      try await pair.server.withBytes { bytes, consumed in
        shown.add(bytes.count)
        if bytes.count < 3 { return [UInt8]() }
        consumed = 3
        return [UInt8](copying: bytes)
      }
    }
    for byte in "abc".utf8 {
      let seen = shown.all.count
      try await pair.client.write([byte])
      try await eventually("the byte was shown") { shown.all.count > seen }
    }
    #expect(try await looking.value == Array("abc".utf8))
    #expect(shown.all == [1, 2, 3])
  }

  @Test(arguments: Transport.allCases)
  func `A look that throws has used up what it counted`(transport: Transport) async throws {
    struct Broken: Error {}
    let pair = try await transport.pair()
    try await pair.client.write(Array("abcdef".utf8))
    _ = try await pair.server.peek()
    await #expect(throws: Broken.self) {
      try await pair.server.withBytes { _, consumed in
        consumed = 4
        throw Broken()
      }
    }
    #expect(try await pair.server.read() == Array("ef".utf8))
  }

  /// A parser that no other isolation may touch.
  private final class Sums {
    var looks = 0
    var bytes = 0

    func take(_ bytes: Span<UInt8>, _ consumed: inout Int) throws {
      looks += 1
      if bytes.count < 2 { return }
      consumed = 2
      self.bytes += 2
      if bytes[0] == UInt8(ascii: "!") { throw Unparsable() }
    }
  }

  private struct Unparsable: Error {}

  @Test(arguments: Transport.allCases)
  func `A parser of the caller's looks at the bytes and comes back`(transport: Transport) async throws {
    let pair = try await transport.pair(sent: "abcd!!x")
    _ = try await pair.server.read(exactly: 0)
    var parser = Sums()
    while parser.bytes < 4 { try await pair.server.withBytes(&parser) { try $0.take($1, &$2) } }
    #expect(parser.looks == 2)
    do {
      try await pair.server.withBytes(&parser) { try $0.take($1, &$2) }
      Issue.record("nothing was thrown")
    } catch is Unparsable {
      #expect(parser.bytes == 6)
    }
    do {
      try await pair.server.withBytes(&parser) { try $0.take($1, &$2) }
      Issue.record("nothing was thrown")
    } catch let error as SocketError where error.code == .endOfStream {
      #expect(parser.looks == 4)
    }
    #expect(try await pair.server.read() == Array("x".utf8))
    let end: Void? = try await pair.server.withBytes(&parser) { try $0.take($1, &$2) }
    #expect(end == nil)
  }

  @Test(arguments: Transport.allCases)
  func `A look at a rest that can never be enough throws, and the rest stays`(transport: Transport) async throws {
    let pair = try await transport.pair(sent: "rest")
    await expectError(.endOfStream) { _ = try await pair.server.withBytes { _, _ in } }
    await expectError(.limitExceeded) { _ = try await pair.server.withBytes(upTo: 2, timeout: nil) { _, _ in } }
    #expect(try await pair.server.read() == Array("rest".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `A maximum is strict, and what exceeds it stays`(transport: Transport) async throws {
    let pair = try await transport.pair()
    try await pair.client.write(utf8: "abc\nabcd\n")
    _ = try await pair.server.peek()
    #expect(try await pair.server.read(until: .lf, maximumLength: 4) == Array("abc\n".utf8))
    await expectError(.limitExceeded) { _ = try await pair.server.read(until: .lf, maximumLength: 4) }
    #expect(try await pair.server.read(until: .lf, maximumLength: 5) == Array("abcd\n".utf8))
    try await pair.client.write(utf8: "xyz")
    await expectError(.limitExceeded) { _ = try await pair.server.read(until: .lf, maximumLength: 3) }
    #expect(try await pair.server.read() == Array("xyz".utf8))
  }

  @Test(arguments: Transport.allCases)
  func `The end of the stream in the middle of a read leaves the bytes`(transport: Transport) async throws {
    let pair = try await transport.pair(sent: "half")
    await expectError(.endOfStream) { _ = try await pair.server.read(exactly: 5) }
    await expectError(.endOfStream) { _ = try await pair.server.read(until: .lf) }
    await expectError(.endOfStream) { _ = try await pair.server.readInteger(as: UInt64.self) }
    #expect(await pair.server.takeBuffered() == Array("half".utf8))
    await expectError(.endOfStream) { _ = try await pair.server.read(exactly: 1) }
    #expect(try await pair.server.read() == nil)
    #expect(try await pair.server.read(exactly: 0) == [])
  }

  @Test(arguments: Transport.allCases)
  func `A read of more than can ever come takes no memory for it`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let reading = Task.immediate { try await pair.server.read(exactly: .max) }
    try await pair.client.write(pattern(100_000))
    try await pair.client.finishWriting()
    await expectError(.endOfStream) { _ = try await reading.value }
    #expect(await pair.server.takeBuffered() == pattern(100_000))
  }

  @Test(arguments: Transport.allCases)
  func `Arguments that make no sense are refused and disturb nothing`(transport: Transport) async throws {
    let pair = try await transport.pair()
    let server = pair.server
    await expectError(.invalidArgument) { _ = try await server.read(upTo: 0) }
    await expectError(.invalidArgument) { _ = try await server.read(upTo: -1) }
    await expectError(.invalidArgument) { _ = try await server.peek(upTo: 0) }
    await expectError(.invalidArgument) { _ = try await server.read(exactly: -1) }
    await expectError(.invalidArgument) { _ = try await server.read(exactly: .min) }
    await expectError(.invalidArgument) { _ = try await server.read(until: "") }
    await expectError(.invalidArgument) { _ = try await server.read(until: .crlf, maximumLength: 1) }
    await expectError(.invalidArgument) { _ = try await server.read(until: .lf, maximumLength: 0) }
    await expectError(.invalidArgument) { _ = try await server.read(until: .lf, maximumLength: -1) }
    await expectError(.invalidArgument) { _ = try await server.withBytes(upTo: 0, timeout: nil) { _, _ in } }
    await expectError(.invalidArgument) { _ = try await server.enqueueRead(.exactly(-1)).value }
    await expectError(.invalidArgument) { for try await _ in server.lines(maximumLength: 0) {} }
    await expectError(.invalidArgument) { for try await _ in server.messages(until: "") {} }
    await expectError(.invalidArgument) { for try await _ in server.messages(ofLength: -1) {} }
    await expectError(.invalidArgument) {
      for try await _ in server.messages(lengthPrefix: .uint8, maximumLength: -1) {}
    }
    await expectError(.invalidArgument) {
      try await pair.client.write(message: pattern(256), lengthPrefix: .uint8)
    }
    try await pair.client.write(Array("ok".utf8))
    #expect(try await server.read(exactly: 2) == Array("ok".utf8))
  }
}
