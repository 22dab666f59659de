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
// then, but gets the second hello in the same way. Records of other kinds may come before it: a change_cipher_spec for
// compatibility with middleboxes (appendix D.4), early data, an alert. OpenSSL gets each of them at once and decides about it.
//
// The versions of OpenSSL differ in the records that they refuse, and in those that they pass over: an empty record, a warning, a
// part of another message. So nothing here relies on a refusal. OpenSSL may say why bytes are not a hello. If it waits for more,
// the server refuses them.

enum ClientHello {
  /// In bytes, without the header of the message. Other implementations have the same limit.
  static let limit = 16_384
  /// In bytes: a client may divide a hello into small records.
  static let recordLimit = 17_408

  enum Progress: Equatable {
    /// OpenSSL would wait for more.
    case incomplete
    /// The hello is complete. Its last record ends after this number of bytes.
    case complete(Int)
    /// The first record, which ends after this number of bytes, may come before a second hello. No byte of that has arrived.
    case before(Int)
    /// These bytes are not a hello, or not only a hello. OpenSSL gets this number of them, and no more.
    case noHello(Int)
    case tooLarge
  }

  /// `bytes` are all since the beginning, or since the server asked for a second hello (`isRetry`).
  static func progress(in bytes: Span<UInt8>, isRetry: Bool) -> Progress {
    let progress = progressOfRecords(in: bytes, isRetry: isRetry)
    return progress == .incomplete && bytes.count > recordLimit ? .tooLarge : progress
  }

  private static func progressOfRecords(in bytes: Span<UInt8>, isRetry: Bool) -> Progress {
    var message = MessageHeader()
    var start = 0
    while start + 5 <= bytes.count {
      if start == 0, !isRetry, bytes[0] & 0x80 != 0, bytes[2] == 1 { return progressOfVersion2(in: bytes) }
      let (type, length) = (bytes[start], Int(bytes[start + 3]) << 8 | Int(bytes[start + 4]))
      // A version that does not exist: this is not TLS.
      guard bytes[start + 1] == 3 else { return .noHello(start + 5) }
      if length > TLSRecord.maximumPlaintext { return .tooLarge }
      let end = start + 5 + length
      if type == recordOfHandshake {
        message.add(bytes.extracting(start + 5..<min(end, bytes.count)))
        if message.isHello == false { return .noHello(start + 5) }
        if let length = message.length, length > limit { return .tooLarge }
      }
      guard end <= bytes.count else { return .incomplete }
      if type != recordOfHandshake || length == 0 {
        return isRetry && message.count == 0 && recordsBeforeRetry.contains(type) ? .before(end) : .noHello(end)
      }
      if message.isComplete { return .complete(end) }
      start = end
    }
    return .incomplete
  }

  /// The form of SSL 2, which OpenSSL still understands: a length of 15 bits, then the message.
  private static func progressOfVersion2(in bytes: Span<UInt8>) -> Progress {
    let length = Int(bytes[0] & 0x7f) << 8 | Int(bytes[1])
    if length > limit { return .tooLarge }
    // The fixed fields have nine bytes.
    if length < 9 { return .noHello(5) }
    return bytes.count < 2 + length ? .incomplete : .complete(2 + length)
  }

  private static let recordOfHandshake: UInt8 = 22
  /// The records that OpenSSL gets while a second hello is awaited: change_cipher_spec, which has no meaning in TLS 1.3, alert,
  /// an empty handshake record, and application_data. A record of another type may have another form for OpenSSL.
  private static let recordsBeforeRetry: [UInt8] = [20, 21, recordOfHandshake, 23]

  private struct MessageHeader {
    /// The bytes of the message that have arrived, its header of four bytes included.
    private(set) var count = 0
    private var header: UInt32 = 0

    mutating func add(_ bytes: Span<UInt8>) {
      for index in 0..<min(bytes.count, max(0, 4 - count)) { header = header << 8 | UInt32(bytes[index]) }
      count += bytes.count
    }

    /// Without the header; `nil` before that has arrived.
    var length: Int? { count < 4 ? nil : Int(header & 0xff_ffff) }

    /// `nil` before the first byte has arrived.
    var isHello: Bool? { count == 0 ? nil : header >> (8 * UInt32(min(count, 4) - 1)) == 1 }

    var isComplete: Bool { length.map { count >= 4 + $0 } ?? false }
  }
}
