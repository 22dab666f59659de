import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct LengthPrefixTests {
  @Test(
    arguments: [
      (.uint8, 200, [200]), (.uint16(.big), 0x1234, [0x12, 0x34]), (.uint16(.little), 0x1234, [0x34, 0x12]),
      (.uint32(.big), 0x1234, [0, 0, 0x12, 0x34]), (.uint32(.little), 0x1234, [0x34, 0x12, 0, 0]),
      (.uint64(.big), 0x1234, [0, 0, 0, 0, 0, 0, 0x12, 0x34]),
      (.uint64(.little), 0x1234, [0x34, 0x12, 0, 0, 0, 0, 0, 0]),
      (.uint16(.big, countsItself: true), 0, [0, 2]), (.uint32(.little, countsItself: true), 10, [14, 0, 0, 0]),
      (.uint64(.big, countsItself: true), 1, [0, 0, 0, 0, 0, 0, 0, 9]),
    ] as [(LengthPrefix, Int, [UInt8])])
  func `A length is written as it should be, and comes back`(prefix: LengthPrefix, length: Int, bytes: [UInt8]) {
    #expect(prefix.encode(length) == bytes)
    #expect(prefix.payloadLength(bytes) == length)
    #expect(prefix.width == bytes.count)
  }

  @Test(arguments: LengthPrefix.allForms)
  func `Every length that fits comes back, and the first that does not is refused`(prefix: LengthPrefix) throws {
    let own = prefix.countsItself ? prefix.width : 0
    let largest = prefix.width == 8 ? Int.max - own : 1 << (8 * prefix.width) - 1 - own
    for length in [0, 1, 2, 127, 128, 200, largest / 2, largest - 1, largest] where length <= largest {
      let bytes = try #require(prefix.encode(length))
      #expect(bytes.count == prefix.width)
      #expect(prefix.payloadLength(bytes) == length)
    }
    if prefix.width < 8 { #expect(prefix.encode(largest + 1) == nil && prefix.encode(.max) == nil) }
  }

  @Test func `A length that no message can have is refused`() {
    let ones = [UInt8](repeating: 0xff, count: 8)
    #expect(LengthPrefix.uint64(.big).payloadLength(ones) == nil)
    #expect(LengthPrefix.uint64(.little).payloadLength([0, 0, 0, 0, 0, 0, 0, 0x80]) == nil)
    #expect(LengthPrefix.uint64(.big).payloadLength([0x7f] + ones.dropFirst()) == .max)
    #expect(LengthPrefix.uint32(.big).payloadLength(ones.prefix(4)) == 0xffff_ffff)
    #expect(LengthPrefix.uint16(.big, countsItself: true).payloadLength([0, 1]) == nil)
    #expect(LengthPrefix.uint16(.big, countsItself: true).payloadLength([0, 2]) == 0)
  }

  @Test func `A delimiter is the bytes that it was made of`() {
    #expect(Delimiter("\r\n.\r\n").bytes == [13, 10, 46, 13, 10])
    #expect(Delimiter("é").bytes == [0xc3, 0xa9])
    #expect(Delimiter([1, 2, 3].lazy.map { UInt8($0) }).bytes == [1, 2, 3])
    #expect([Delimiter.crlf, .cr, .lf, .zero].map(\.bytes) == [[13, 10], [13], [10], [0]])
    #expect(Delimiter.crlf == "\r\n")
  }

  // MARK: What a request makes of the bytes

  @Test func `An integer comes out of its bytes in either order`() throws {
    #expect(try ReadRequest.integer(UInt32.self).convert(.bytes([1, 2, 3, 4])) == 0x0102_0304)
    #expect(try ReadRequest.integer(UInt32.self, endianness: .little).convert(.bytes([1, 2, 3, 4])) == 0x0403_0201)
    #expect(try ReadRequest.integer(Int16.self).convert(.bytes([0xff, 0xfe])) == -2)
    #expect(try ReadRequest.integer(Int8.self).convert(.bytes([0x80])) == -128)
    #expect(try ReadRequest.integer(UInt64.self).convert(.bytes(.init(repeating: 0xff, count: 8))) == .max)
    #expect(
      try ReadRequest.integer(Int64.self, endianness: .little).convert(.bytes([0, 0, 0, 0, 0, 0, 0, 0x80])) == .min)
    #expect(try ReadRequest.integer(UInt128.self).convert(.bytes(.init(repeating: 0, count: 15) + [7])) == 7)
  }

  @Test func `A line that is no UTF-8 is an error that has its bytes`() throws {
    let request = ReadRequest<String?>.line()
    #expect(try request.convert(.bytes(Array("grüß".utf8))) == "grüß")
    #expect(try request.convert(.bytes([])) == "")
    #expect(try request.convert(.endOfStream) == nil)
    for bytes in [[0xff], [0xc3], [97, 0xed, 0xa0, 0x80], [0xc0, 0x80], [0xf4, 0x90, 0x80, 0x80]] as [[UInt8]] {
      let error = expectErrorNow(.invalidUTF8) { _ = try request.convert(.bytes(bytes)) }
      #expect(error.bytes == bytes)
    }
  }
}
