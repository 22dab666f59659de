// The first message of a client, as a server sees it before it has an engine: RFC 8446, sections 4.1.2 and 5.1.
//
//    record            record                 record
//   ┌────────┬───────┐┌────────┬─────────────┐┌────────┬───────┐
//   │ header │ hello…││ header │     …hello… ││ header │ …hello│
//   └────────┴───────┘└────────┴─────────────┘└────────┴───────┘
//
// An engine takes some 20 KB, and OpenSSL reserves as much memory as a message announces, up to 128 KiB for a hello. So a server
// keeps what has arrived of the hello and makes the engine when the hello is complete. A client that sends nothing, or
// not all of its hello, takes only the memory of the bytes that it sent.
//
// A client sends a second hello if the server has answered the first one with a HelloRetryRequest. The engine exists by
// then, but gets the second hello in the same way. Records of two other kinds may come before it: a change_cipher_spec for
// compatibility with middleboxes (appendix D.4), and early data. OpenSSL skips both.

/// How much of a client's hello has arrived.
enum ClientHello {
  /// The most bytes of a hello, without its header. Other implementations have the same limit.
  static let limit = 16_384
  /// The most bytes of the records that hold a hello: a client may divide it into small ones.
  static let recordLimit = 17_408

  enum Progress: Equatable {
    /// OpenSSL would wait for more.
    case incomplete
    /// The hello is complete. Its last record ends after this number of bytes. Or the bytes are not a hello: then this is the
    /// number of all bytes, and OpenSSL reports what is wrong with them.
    case complete(Int)
    /// The hello has too many bytes.
    case tooLarge
  }

  /// Looks at the bytes that a client has sent.
  ///
  /// - Parameters:
  ///   - bytes: All bytes since the beginning, or since the server asked for a second hello.
  ///   - isRetry: Whether the server asked for a second hello.
  /// - Returns: How much has arrived.
  static func progress(in bytes: Span<UInt8>, isRetry: Bool) -> Progress {
    let progress = progressOfRecords(in: bytes, isRetry: isRetry)
    return progress == .incomplete && bytes.count > recordLimit ? .tooLarge : progress
  }

  private static func progressOfRecords(in bytes: Span<UInt8>, isRetry: Bool) -> Progress {
    var message = MessageHeader()
    var start = 0
    while start + 5 <= bytes.count {
      if start == 0, bytes[0] & 0x80 != 0, bytes[2] == 1 { return progressOfVersion2(in: bytes) }
      let (type, length) = (bytes[start], Int(bytes[start + 3]) << 8 | Int(bytes[start + 4]))
      // A version that does not exist: this is not TLS.
      guard bytes[start + 1] == 3 else { return .complete(bytes.count) }
      if length > TLSRecord.maximumPlaintext { return .tooLarge }
      let end = start + 5 + length
      if type == recordOfHandshake {
        message.add(bytes.extracting(start + 5..<min(end, bytes.count)))
        if message.isHello == false { return .complete(bytes.count) }
        if let length = message.length, length > limit { return .tooLarge }
      }
      guard end <= bytes.count else { return .incomplete }
      let isSkipped = isRetry && message.count == 0 && skippedRecords.contains(type)
      if message.isComplete { return .complete(end) }
      if !isSkipped, type != recordOfHandshake || length == 0 { return .complete(bytes.count) }
      start = end
    }
    return .incomplete
  }

  /// The form of SSL 2, which OpenSSL still understands: a length of 15 bits, then the message.
  private static func progressOfVersion2(in bytes: Span<UInt8>) -> Progress {
    let length = Int(bytes[0] & 0x7f) << 8 | Int(bytes[1])
    if length > limit { return .tooLarge }
    return bytes.count < 2 + length ? .incomplete : .complete(2 + length)
  }

  private static let recordOfHandshake: UInt8 = 22
  /// The types change_cipher_spec, which has no meaning in TLS 1.3, and application_data.
  private static let skippedRecords: [UInt8] = [20, 23]

  /// The header of a message of the handshake, gathered from records.
  private struct MessageHeader {
    /// The number of bytes of the message that have arrived, its header of four bytes included.
    private(set) var count = 0
    private var header: UInt32 = 0

    mutating func add(_ bytes: Span<UInt8>) {
      for index in 0..<min(bytes.count, max(0, 4 - count)) { header = header << 8 | UInt32(bytes[index]) }
      count += bytes.count
    }

    /// The number of bytes that the message announces, without its header; `nil` before that has arrived.
    var length: Int? { count < 4 ? nil : Int(header & 0xff_ffff) }

    /// Whether it is a hello; `nil` before its first byte has arrived.
    var isHello: Bool? { count == 0 ? nil : header >> (8 * UInt32(min(count, 4) - 1)) == 1 }

    var isComplete: Bool { length.map { count >= 4 + $0 } ?? false }
  }
}
