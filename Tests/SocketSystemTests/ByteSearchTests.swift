import SocketSystem
import Testing

@Suite struct ByteSearchTests {
  private let bytes = Array("abcabcab".utf8)

  @Test(arguments: [(Int.min, 1), (-1, 1), (0, 1), (1, 1), (2, 4), (4, 4), (5, 7), (8, nil), (9, nil), (Int.max, nil)])
  func `A byte is found at or behind the start`(start: Int, expected: Int?) {
    #expect(bytes.span.firstIndex(of: UInt8(ascii: "b"), from: start) == expected)
    #expect(bytes.span.firstIndex(of: [UInt8(ascii: "b")], from: start) == expected)
  }

  @Test(arguments: [(Int.min, 1), (-1, 1), (0, 1), (1, 1), (2, 4), (4, 4), (5, nil), (8, nil), (Int.max, nil)])
  func `Several bytes are found at or behind the start`(start: Int, expected: Int?) {
    #expect(bytes.span.firstIndex(of: Array("bca".utf8), from: start) == expected)
  }

  @Test func `Bytes that do not occur are not found, and nothing is found in an empty span`() {
    #expect(bytes.span.firstIndex(of: 0) == nil)
    #expect(bytes.span.firstIndex(of: Array("cc".utf8)) == nil)
    #expect([UInt8]().span.firstIndex(of: 0) == nil)
    #expect([UInt8]().span.firstIndex(of: [0, 0]) == nil)
  }
}
