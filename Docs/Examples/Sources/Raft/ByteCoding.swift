// Bytes of messages and files. Numbers have eight bytes, the largest first, and fields have their length before them.

struct ByteWriter {
  private(set) var bytes: [UInt8] = []

  mutating func write(_ number: UInt64) {
    for shift in stride(from: 56, through: 0, by: -8) {
      bytes.append(UInt8(truncatingIfNeeded: number >> UInt64(shift)))
    }
  }

  mutating func write(_ number: Int) { write(UInt64(bitPattern: Int64(number))) }

  mutating func write(kind: UInt8) { bytes.append(kind) }

  mutating func write(_ field: [UInt8]) {
    write(field.count)
    bytes += field
  }

  mutating func write(_ time: Duration) {
    let (seconds, attoseconds) = time.components
    write(Int(seconds) * 1_000_000_000 + Int(attoseconds / 1_000_000_000))
  }

  mutating func write(_ entry: LogEntry) {
    write(entry.term)
    switch entry.command {
    case .nothing: write(kind: 0)
    case .put(let key, let value, let session):
      write(kind: 1)
      write(key)
      write(value)
      write(session)
    }
  }

  mutating func write(_ session: Session) {
    write(session.client)
    write(session.number)
  }
}

struct ByteReader {
  /// The bytes are not what the program writes.
  struct Malformed: Error {}

  private var rest: ArraySlice<UInt8>

  init(_ bytes: some Collection<UInt8>) { rest = ArraySlice(bytes) }

  var isAtEnd: Bool { rest.isEmpty }

  mutating func bytes(_ count: Int) throws -> ArraySlice<UInt8> {
    guard count >= 0, count <= rest.count else { throw Malformed() }
    defer { rest = rest.dropFirst(count) }
    return rest.prefix(count)
  }

  mutating func kind() throws -> UInt8 { try bytes(1).first ?? 0 }

  mutating func number() throws -> UInt64 { try bytes(8).reduce(0) { $0 << 8 | UInt64($1) } }

  /// A number from 0 on that leaves room for sums.
  mutating func index() throws -> Int {
    guard let index = Int(exactly: try number()), index < 1 << 60 else { throw Malformed() }
    return index
  }

  mutating func field() throws -> [UInt8] {
    let count = try index()
    guard count <= Packet.longestField else { throw Malformed() }
    return Array(try bytes(count))
  }

  mutating func time() throws -> Duration { .nanoseconds(Int64(try index())) }

  mutating func session() throws -> Session { Session(client: try number(), number: try number()) }

  mutating func entry() throws -> LogEntry {
    let term = try number()
    switch try kind() {
    case 0: return LogEntry(term: term, command: .nothing)
    case 1: return LogEntry(term: term, command: .put(key: try field(), value: try field(), try session()))
    default: throw Malformed()
    }
  }
}

/// CRC-32, as in Ethernet.
func checksum(_ bytes: some Sequence<UInt8>) -> UInt32 {
  var sum = UInt32.max
  for byte in bytes { sum = sum >> 8 ^ checksumTable[Int(UInt8(truncatingIfNeeded: sum) ^ byte)] }
  return ~sum
}

private let checksumTable: [UInt32] = (0..<256).map { byte in
  (0..<8).reduce(UInt32(byte)) { sum, _ in sum & 1 == 0 ? sum >> 1 : sum >> 1 ^ 0xEDB8_8320 }
}
