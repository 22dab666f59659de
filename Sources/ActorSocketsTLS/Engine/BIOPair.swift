// The memory between OpenSSL and the carrier: two ring buffers, which OpenSSL calls a BIO pair (BIO_s_bio(3)).
//
//                 feed                                  withOutput
//    ciphertext ────────▶ input ring ──▶ SSL ──▶ output ring ────────▶ ciphertext
//
// Invariants:
// - If `hasInput` or `hasOutput` is false, its ring is empty. Calls on SSL change the rings, so their caller calls
//   `updateAfterCall()` afterwards.
// - The rings are as large as the current work needs: an idle connection has two small ones. Rings are resized only
//   while both are empty: the pair is taken apart, sized and joined again.
// - After the end of the input the pair is not resized, because that would undo the end.
// - SSL owns `inner`, its half of the pair, and frees it. `outer`, the other half, is freed here, after SSL.

internal import ActorSockets
internal import COpenSSL

/// The sizes of a record, RFC 8446, section 5.
enum TLSRecord {
  /// The most plaintext in a record: 2^14 bytes.
  static let maximumPlaintext = 16_384
  /// The most bytes that a record adds to its plaintext: header, initialisation vector, padding and checksum.
  static let maximumOverhead = 256
}

/// Two ring buffers of ciphertext, one for each direction of one `SSL`.
@safe struct BIOPair: ~Copyable {
  /// SSL's half of the pair. SSL owns it.
  private let inner: OpaquePointer
  /// The other half.
  private let outer: OpaquePointer
  /// Whether there is ciphertext to send. If false, the output ring is empty.
  private(set) var hasOutput = false
  /// Whether there is ciphertext that SSL has not read. If false, the input ring is empty.
  private(set) var hasInput = false
  private(set) var inputIsOver = false
  private var sizes = Sizes.first

  /// The sizes of the rings, in bytes.
  private struct Sizes: Equatable {
    var input: Int
    var output: Int

    /// Enough for an idle connection: more bytes pass through a small ring piece by piece.
    static let small = Sizes(input: 1_024, output: 1_024)
    /// Room for what most handshakes send at once.
    static let first = Sizes(input: 4_096, output: 4_096)
    /// Room for the largest record. RFC 8446 limits its plaintext to 2^14 bytes.
    static let large = Sizes(input: 17_408, output: 17_408)
    /// The largest output ring: four records go out in one system call.
    static let largestOutput = 4 * (TLSRecord.maximumPlaintext + TLSRecord.maximumOverhead)
  }

  /// Makes a pair with room for a handshake. The caller passes it to an `SSL` at once: `attach(to:)`.
  init() throws(TLSError) {
    var inner: OpaquePointer?
    var outer: OpaquePointer?
    // SAFETY: the call sets both if it succeeds; SSL takes one over, `deinit` frees the other.
    _ = unsafe BIO_new_bio_pair(&inner, Sizes.first.output, &outer, Sizes.first.input)
    guard let inner = unsafe inner, let outer = unsafe outer else { throw .outOfMemory }
    unsafe self.inner = inner
    unsafe self.outer = outer
  }

  // SAFETY: `outer` is freed once; SSL frees `inner`.
  deinit { unsafe BIO_free(outer) }

  /// Gives SSL its half, for both directions.
  func attach(to ssl: OpaquePointer) {
    // SAFETY: `ssl` is the caller's and takes `inner` over, which is given away once.
    unsafe SSL_set_bio(ssl, inner, inner)
  }

  // MARK: Ciphertext in

  /// The number of bytes that SSL has not read yet.
  // SAFETY: `inner` is valid while SSL lives, and the owner of this value keeps SSL until it ends itself.
  var inputCount: Int { unsafe hasInput ? copenssl_BIO_pending(inner) : 0 }

  /// Copies as much ciphertext into the input ring as there is room for.
  ///
  /// - Returns: The number of bytes copied.
  mutating func feed(_ ciphertext: Span<UInt8>) -> Int {
    if ciphertext.isEmpty || inputIsOver { return 0 }
    // SAFETY: the pointer is valid for the count during the call, which only reads.
    let written = unsafe ciphertext.withUnsafeBytes { bytes in
      unsafe BIO_write(outer, bytes.baseAddress, Int32(clamping: bytes.count))
    }
    if written > 0 { hasInput = true }
    return max(0, Int(written))
  }

  /// Marks the end of the ciphertext.
  mutating func endInput() {
    if inputIsOver { return }
    inputIsOver = true
    // SAFETY: `outer` is this value's.
    _ = unsafe copenssl_BIO_shutdown_wr(outer)
  }

  // MARK: Ciphertext out

  /// The number of bytes to send.
  // SAFETY: `outer` is this value's.
  var outputCount: Int { unsafe hasOutput ? copenssl_BIO_pending(outer) : 0 }

  /// The number of bytes that SSL can write before the output ring is full.
  // SAFETY: `inner` is valid while SSL lives, and the owner of this value keeps SSL until it ends itself.
  var outputRoom: Int { unsafe hasOutput ? Int(BIO_ctrl_get_write_guarantee(inner)) : sizes.output }

  /// Passes the ciphertext to send to `body`, one contiguous piece of the ring at a time, until `body` returns 0.
  ///
  /// - Parameter body: Returns how many bytes of the piece it sent.
  /// - Returns: Whether all of the ciphertext was sent.
  mutating func withOutput(_ body: (Span<UInt8>) -> Int) -> Bool {
    var pending = outputCount
    while pending > 0 {
      var start: UnsafeMutablePointer<CChar>?
      // SAFETY: the memory is the ring's and valid until the next call on the pair; `body` makes no such call.
      let count = unsafe BIO_nread0(outer, &start)
      guard count > 0, let start = unsafe start else { break }
      let bytes = unsafe UnsafeRawBufferPointer(start: start, count: Int(count)).assumingMemoryBound(to: UInt8.self)
      let sent = min(body(unsafe Span(_unsafeElements: bytes)), Int(count))
      if sent <= 0 { break }
      var ignored: UnsafeMutablePointer<CChar>?
      _ = unsafe BIO_nread(outer, &ignored, Int32(sent))
      pending -= sent
    }
    hasOutput = pending > 0
    return !hasOutput
  }

  // MARK: After calls on SSL

  /// Updates `hasInput` and `hasOutput` after a call on SSL. They are stored because they are read often.
  mutating func updateAfterCall() {
    // SAFETY: both halves are this value's.
    assert(unsafe hasInput || copenssl_BIO_pending(inner) == 0, "ciphertext lies in the ring unnoticed")
    hasOutput = unsafe copenssl_BIO_pending(outer) > 0
    if hasInput { _ = updateInput() }
  }

  /// Updates `hasInput` after a read.
  ///
  /// - Returns: Whether there is ciphertext that SSL has not read.
  mutating func updateInput() -> Bool {
    // SAFETY: `inner` is valid while SSL lives, and the owner of this value keeps SSL until it ends itself.
    hasInput = unsafe copenssl_BIO_pending(inner) > 0
    return hasInput
  }

  /// Notes that SSL has written a record.
  mutating func recordWasWritten() { hasOutput = true }

  // MARK: Sizes

  /// Enlarges rings that are too small, if both are empty.
  ///
  /// - Parameters:
  ///   - input: The number of bytes of ciphertext to take in.
  ///   - output: The number of bytes of plaintext to encrypt.
  mutating func grow(input: Int = 0, output: Int = 0) {
    var wanted = sizes
    if input > sizes.input { wanted.input = Sizes.large.input }
    if output + TLSRecord.maximumOverhead > sizes.output {
      let records = (output - 1) / TLSRecord.maximumPlaintext + 1
      let room = records * (TLSRecord.maximumPlaintext + TLSRecord.maximumOverhead)
      wanted.output = min(max(Sizes.large.output, room), Sizes.largestOutput)
    }
    if wanted != sizes { resize(to: wanted) }
  }

  /// Shrinks both rings if they are empty.
  mutating func shrink() {
    if sizes != .small { resize(to: .small) }
  }

  private mutating func resize(to wanted: Sizes) {
    // SAFETY: both halves are this value's. The rings are empty, so no byte is lost.
    guard !inputIsOver, !hasInput, !hasOutput else { return }
    assert(
      unsafe copenssl_BIO_pending(inner) == 0 && copenssl_BIO_pending(outer) == 0, "only empty rings are resized")
    unsafe copenssl_BIO_destroy_bio_pair(outer)
    unsafe copenssl_BIO_set_write_buf_size(outer, wanted.input)
    unsafe copenssl_BIO_set_write_buf_size(inner, wanted.output)
    // If memory runs out, the pair has no rings: it takes nothing in and lets nothing out, and its first use finds
    // that.
    if unsafe copenssl_BIO_make_bio_pair(inner, outer) == 1 { sizes = wanted }
  }
}

extension TLSError {
  /// There is no memory for a connection.
  static var outOfMemory: TLSError { TLSError(.internalError, detail: "there is no memory for a TLS connection") }
}
