internal import SocketSystem

/// The current key encrypts and decrypts tickets, the previous one only decrypts.
///
/// A key encrypts for one lifetime and decrypts for one more. So a stolen key decrypts at most the records of that time, and no
/// ticket is refused before it is one lifetime old. The caller passes the time, in nanoseconds of a monotonic clock.
struct TicketKeyRing: Sendable {
  struct Key: Sendable {
    /// 16 bytes, by which a ticket identifies its key.
    let name: [UInt8]
    /// For AES-256 in CBC mode.
    let cipherKey: [UInt8]
    /// For HMAC with SHA-256.
    let macKey: [UInt8]
    fileprivate let start: Int64
  }

  private let lifetime: Int64
  private var current: Key?
  private var previous: Key?
  /// Random bytes for later use: making many at a time costs hardly more than making a few.
  private var unused: ArraySlice<UInt8> = []

  init(lifetime: Duration) {
    self.lifetime = min(.max / 4, lifetime.clampedNanoseconds)
  }

  /// Makes a new key if the last is too old. The initialisation vector has 16 bytes, and no other ticket has it. The
  /// bytes of `random` must be cryptographically secure.
  mutating func sealing(
    at now: Int64, _ random: (Int) throws(TLSError) -> [UInt8]
  ) throws(TLSError) -> (key: Key, vector: ArraySlice<UInt8>) {
    retire(at: now)
    if unused.isEmpty { unused = try random(32 * Self.vectorSize)[...] }
    let vector = unused.prefix(Self.vectorSize)
    let key: Key
    if let current { key = current } else { key = try makeKey(at: now, random) }
    unused.removeFirst(Self.vectorSize)
    return (key, vector)
  }

  private static let vectorSize = 16

  private mutating func makeKey(
    at now: Int64, _ random: (Int) throws(TLSError) -> [UInt8]
  ) throws(TLSError) -> Key {
    let bytes = try random(80)
    let key = Key(
      name: Array(bytes[0..<16]), cipherKey: Array(bytes[16..<48]), macKey: Array(bytes[48..<80]), start: now)
    current = key
    return key
  }

  /// If the key is the previous one, a new ticket should replace the old.
  mutating func opening(_ name: some Sequence<UInt8>, at now: Int64) -> (key: Key, isPrevious: Bool)? {
    retire(at: now)
    if let current, name.elementsEqual(current.name) { return (current, false) }
    if let previous, name.elementsEqual(previous.name) { return (previous, true) }
    return nil
  }

  private mutating func retire(at now: Int64) {
    if let key = current, now - key.start >= lifetime {
      previous = key
      current = nil
    }
    if let key = previous, now - key.start >= 2 * lifetime { previous = nil }
  }
}
