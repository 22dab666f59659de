internal import SocketSystem

/// In the form of ALPN, each name has its length in front: RFC 7301, section 3.1.
struct ApplicationProtocols: Sendable {
  let names: [[UInt8]]

  init(_ texts: [String]) throws(TLSError) {
    names = texts.map { Array($0.utf8) }
    guard names.allSatisfy({ !$0.isEmpty }) else {
      throw TLSError(.invalidConfiguration, detail: "the name of an application protocol is empty")
    }
    if let long = texts.first(where: { $0.utf8.count > 255 }) {
      throw TLSError(
        .invalidConfiguration,
        detail: "the application protocol \(AddressError.quote(long)) has a name of more than 255 bytes")
    }
    guard encoded.count <= 65535 else {
      throw TLSError(.invalidConfiguration, detail: "the names of the application protocols are too long together")
    }
  }

  var encoded: [UInt8] { names.flatMap { [UInt8($0.count)] + $0 } }

  /// Returns the range of each name that a client offers.
  static func names(in bytes: Span<UInt8>) -> [Range<Int>] {
    var places: [Range<Int>] = []
    var index = 0
    while index < bytes.count {
      let end = index + 1 + Int(bytes[index])
      guard end <= bytes.count else { break }
      places.append(index + 1..<end)
      index = end
    }
    return places
  }
}
