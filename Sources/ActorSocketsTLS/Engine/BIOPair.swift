// The memory between OpenSSL and the carrier: two rings, which OpenSSL calls a BIO pair (BIO_s_bio(3)).
//
//                 feed                                  withOutput
//    ciphertext ────────▶ input ring ──▶ SSL ──▶ output ring ────────▶ ciphertext
//
// Invariants:
// - `hasInput` and `hasOutput` are false only while their ring is empty. Calls on SSL change the rings: whoever makes one calls
//   `updateAfterCall()` afterwards.
// - The rings are as large as the current work needs: an idle connection has two small ones. Only a pair whose rings are empty is
//   resized: it is taken apart, sized and put together again.
// - A pair that was told of the end of the input is not resized, for that would undo it.
// - SSL owns `inner`, the half that it was given, and frees it. `outer`, the other half, is freed here, after SSL.

internal import ActorSockets
internal import COpenSSL

/// The sizes of a record, RFC 8446, section 5.
enum TLSRecord {
  /// The most plaintext of a record: 2^14 bytes.
  static let maximumPlaintext = 16_384
  /// What a record has beside its plaintext, at most: the header, an initialisation vector, padding, a check sum.
  static let maximumOverhead = 256
}

/// Two rings of ciphertext, one in each direction, of one `SSL`.
@safe struct BIOPair: ~Copyable {
  /// SSL's half of the pair, which SSL owns.
  private let inner: OpaquePointer
  /// The other half.
  private let outer: OpaquePointer
  /// Whether there is something to send. If not, the ring of what goes out is empty.
  private(set) var hasOutput = false
  /// Whether there is ciphertext that was not looked at. If not, the ring of what comes in is empty.
  private(set) var hasInput = false
  private(set) var inputIsOver = false
  private var sizes = Sizes.first

  /// The sizes of the rings, in bytes.
  private struct Sizes: Equatable {
    var input: Int
    var output: Int

    /// A ring of any size takes what there is piece by piece.
    static let small = Sizes(input: 1_024, output: 1_024)
    /// Room for what most handshakes send at once.
    static let first = Sizes(input: 4_096, output: 4_096)
    /// Room for the largest record, which RFC 8446 limits to 2^14 bytes and a bit.
    static let large = Sizes(input: 17_408, output: 17_408)
    /// The most room to write to: four records go out in one system call.
    static let largestOutput = 4 * (TLSRecord.maximumPlaintext + TLSRecord.maximumOverhead)
  }

  /// A pair with room for a handshake. The caller gives it to an `SSL` at once: `attach(to:)`.
  init() throws(TLSError) {
    var inner: OpaquePointer?
    var outer: OpaquePointer?
    // SAFETY: both are set if the call succeeds; SSL takes one over, `deinit` frees the other.
    _ = unsafe BIO_new_bio_pair(&inner, Sizes.first.output, &outer, Sizes.first.input)
    guard let inner = unsafe inner, let outer = unsafe outer else { throw .outOfMemory }
    unsafe self.inner = inner
    unsafe self.outer = outer
  }

  // SAFETY: it is freed once, and `inner` is SSL's to free.
  deinit { unsafe BIO_free(outer) }

  /// Gives SSL its half, for both directions.
  func attach(to ssl: OpaquePointer) {
    // SAFETY: `ssl` is the caller's and takes `inner` over, which is given away once.
    unsafe SSL_set_bio(ssl, inner, inner)
  }

  // MARK: Ciphertext in

  /// How many bytes SSL has not read yet.
  // SAFETY: `inner` is this value's as long as SSL lives, which its owner frees first.
  var inputCount: Int { unsafe hasInput ? copenssl_BIO_pending(inner) : 0 }

  /// Puts as much ciphertext into the ring as it has room for.
  ///
  /// - Returns: How many bytes were put in.
  mutating func feed(_ ciphertext: Span<UInt8>) -> Int {
    if ciphertext.isEmpty || inputIsOver { return 0 }
    // SAFETY: the pointer is valid for the count during the call, which only reads.
    let written = unsafe ciphertext.withUnsafeBytes { bytes in
      unsafe BIO_write(outer, bytes.baseAddress, Int32(clamping: bytes.count))
    }
    if written > 0 { hasInput = true }
    return max(0, Int(written))
  }

  /// No more ciphertext comes.
  mutating func endInput() {
    if inputIsOver { return }
    inputIsOver = true
    // SAFETY: `outer` is this value's.
    _ = unsafe copenssl_BIO_shutdown_wr(outer)
  }

  // MARK: Ciphertext out

  /// How many bytes there are to send.
  // SAFETY: `outer` is this value's.
  var outputCount: Int { unsafe hasOutput ? copenssl_BIO_pending(outer) : 0 }

  /// How many bytes SSL can write before the ring is full.
  // SAFETY: `inner` is this value's as long as SSL lives, which its owner frees first.
  var outputRoom: Int { unsafe hasOutput ? Int(BIO_ctrl_get_write_guarantee(inner)) : sizes.output }

  /// Shows what is to be sent, in as many pieces as lie apart in the ring; `body` says how much of a piece was. 0 ends it.
  ///
  /// - Returns: Whether all of it was sent.
  mutating func withOutput(_ body: (Span<UInt8>) -> Int) -> Bool {
    var pending = outputCount
    while pending > 0 {
      var start: UnsafeMutablePointer<CChar>?
      // SAFETY: the memory is the ring's, valid until the next call on the pair, and `body` makes none.
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

  // MARK: After a call on SSL

  /// Looks at what a call on SSL has left in the rings: once, for it is asked for often.
  mutating func updateAfterCall() {
    // SAFETY: both halves are this value's.
    assert(unsafe hasInput || copenssl_BIO_pending(inner) == 0, "ciphertext lies in the ring unnoticed")
    hasOutput = unsafe copenssl_BIO_pending(outer) > 0
    if hasInput { _ = updateInput() }
  }

  /// Looks at what a read has left.
  ///
  /// - Returns: Whether there is ciphertext that was not looked at.
  mutating func updateInput() -> Bool {
    // SAFETY: `inner` is this value's as long as SSL lives, which its owner frees first.
    hasInput = unsafe copenssl_BIO_pending(inner) > 0
    return hasInput
  }

  /// SSL has written a record.
  mutating func recordWasWritten() { hasOutput = true }

  // MARK: Room

  /// Makes the rings larger, if they are empty and too small for so many bytes: of ciphertext to take in, of plaintext to encrypt.
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

  /// Makes the rings small if they are empty.
  mutating func shrink() {
    if sizes != .small { resize(to: .small) }
  }

  private mutating func resize(to wanted: Sizes) {
    // SAFETY: both halves are this value's. Nothing is lost: the rings are empty.
    guard !inputIsOver, !hasInput, !hasOutput else { return }
    assert(
      unsafe copenssl_BIO_pending(inner) == 0 && copenssl_BIO_pending(outer) == 0, "only empty rings are resized")
    unsafe copenssl_BIO_destroy_bio_pair(outer)
    unsafe copenssl_BIO_set_write_buf_size(outer, wanted.input)
    unsafe copenssl_BIO_set_write_buf_size(inner, wanted.output)
    // Without memory the rings would be none: nothing can be taken in or out, which the first use finds.
    if unsafe copenssl_BIO_make_bio_pair(inner, outer) == 1 { sizes = wanted }
  }
}

extension TLSError {
  /// There is no memory for a connection.
  static var outOfMemory: TLSError { TLSError(.internalError, detail: "there is no memory for a TLS connection") }
}
