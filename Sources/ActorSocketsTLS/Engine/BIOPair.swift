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
  static let maximumPlaintext = 16_384
  /// The most bytes that a record adds to its plaintext: header, initialisation vector, padding and checksum.
  static let maximumOverhead = 256
}

@safe struct BIOPair: ~Copyable {
  private let inner: OpaquePointer
  private let outer: OpaquePointer
  private(set) var hasOutput = false
  private(set) var hasInput = false
  private(set) var inputIsOver = false
  private var sizes = Sizes.first

  private struct Sizes: Equatable {
    var input: Int
    var output: Int

    /// Enough for an idle connection: more bytes pass through a small ring piece by piece.
    static let small = Sizes(input: 1_024, output: 1_024)
    /// Room for what most handshakes send at once.
    static let first = Sizes(input: 4_096, output: 4_096)
    /// Room for the largest record.
    static let large = Sizes(input: 17_408, output: 17_408)
    /// The largest output ring: four records go out in one system call.
    static let largestOutput = 4 * (TLSRecord.maximumPlaintext + TLSRecord.maximumOverhead)
  }

  /// Until `attach(to:)` only `outer` has an owner, so the caller attaches the pair to an `SSL` at once.
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

  func attach(to ssl: OpaquePointer) {
    // SAFETY: `ssl` is the caller's and takes `inner` over, which is given away once.
    unsafe SSL_set_bio(ssl, inner, inner)
  }

  // MARK: Ciphertext in

  // SAFETY: `inner` is valid while SSL lives, and the owner of this value keeps SSL until it ends itself.
  var inputCount: Int { unsafe hasInput ? copenssl_BIO_pending(inner) : 0 }

  /// Copies as much ciphertext as the input ring has room for, and returns the number of bytes copied.
  mutating func feed(_ ciphertext: Span<UInt8>) -> Int {
    if ciphertext.isEmpty || inputIsOver { return 0 }
    // SAFETY: the pointer is valid for the count during the call, which only reads.
    let written = unsafe ciphertext.withUnsafeBytes { bytes in
      unsafe BIO_write(outer, bytes.baseAddress, Int32(clamping: bytes.count))
    }
    if written > 0 { hasInput = true }
    return max(0, Int(written))
  }

  mutating func endInput() {
    if inputIsOver { return }
    inputIsOver = true
    // SAFETY: `outer` is this value's.
    _ = unsafe copenssl_BIO_shutdown_wr(outer)
  }

  // MARK: Ciphertext out

  // SAFETY: `outer` is this value's.
  var outputCount: Int { unsafe hasOutput ? copenssl_BIO_pending(outer) : 0 }

  // SAFETY: `inner` is valid while SSL lives, and the owner of this value keeps SSL until it ends itself.
  var outputRoom: Int { unsafe hasOutput ? Int(BIO_ctrl_get_write_guarantee(inner)) : sizes.output }

  /// Passes the ciphertext to send to `body`, one contiguous piece of the ring at a time, until `body` returns 0.
  /// `body` returns how many bytes it sent. Returns whether all of the ciphertext was sent.
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

  /// `hasInput` and `hasOutput` are stored because they are read often.
  mutating func updateAfterCall() {
    // SAFETY: both halves are this value's.
    assert(unsafe hasInput || copenssl_BIO_pending(inner) == 0, "ciphertext lies in the ring unnoticed")
    hasOutput = unsafe copenssl_BIO_pending(outer) > 0
    if hasInput { _ = updateInput() }
  }

  mutating func updateInput() -> Bool {
    // SAFETY: `inner` is valid while SSL lives, and the owner of this value keeps SSL until it ends itself.
    hasInput = unsafe copenssl_BIO_pending(inner) > 0
    return hasInput
  }

  mutating func recordWasWritten() { hasOutput = true }

  // MARK: Sizes

  /// Makes room for `input` bytes of ciphertext and for the records of `output` bytes of plaintext, if both rings are empty.
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
  static var outOfMemory: TLSError { TLSError(.internalError, detail: "there is no memory for a TLS connection") }
}
