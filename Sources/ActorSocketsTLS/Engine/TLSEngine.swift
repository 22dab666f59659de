// One side of a TLS connection: OpenSSL between two rings of memory, a `BIOPair`. It has no input or output of its own.
//
//                 feed                                  output
//    ciphertext ────────▶ ring ──▶ SSL ──▶ ring ────────────────▶ ciphertext
//                                  │ ▲
//                             read ▼ │ write
//                                plaintext
//
// What OpenSSL asks of its caller, and how it is kept to:
// - The error queue is the thread's: it is cleared before a call, and read in the same function.
// - After a fatal failure nothing is called any more, SSL_shutdown least of all. The alert waits in the ring and is sent.
// - Every call may leave something in the ring for the peer, reading too (an alert, a ticket, the answer to a key update). Whoever calls
//   looks at `hasOutput` afterwards.
// - A write is never cut by a full ring: only as much is written as it has room for as a whole record. So SSL never holds back what it
//   was given, and no write need be repeated with the same bytes.
// - Decrypted bytes raise no event: reading goes on until OpenSSL has nothing more.
// - The end of the input is said to OpenSSL (BIO_shutdown_wr), which would wait for ever otherwise.

internal import ActorSockets
internal import COpenSSL

/// OpenSSL's state of one connection and the two rings, owned by whoever holds this value.
@safe struct TLSEngine: ~Copyable {
  /// What came of a step of the handshake.
  enum HandshakeStep {
    case done
    /// The peer's next bytes are needed.
    case needsInput
    /// The ring is full.
    case needsOutput
    /// A closure has to judge the peer: see `TLSHandshakeState.peerToVerify`.
    case needsVerifier
    case failed(TLSError)
  }

  /// What ended a run of reading.
  enum ReadStep {
    case needsInput
    case needsOutput
    /// There is no room for more.
    case full
    /// The peer said that no more comes.
    case ended
    case failed(TLSError)
  }

  let state: TLSHandshakeState
  private let ssl: OpaquePointer
  private var rings: BIOPair
  private(set) var failure: TLSError?
  /// Bytes written since the keys were changed.
  private var bytesSinceKeyUpdate = 0

  /// Keys of AES-GCM are good for 2^24.5 full records, RFC 8446, section 5.5; they are changed long before that.
  private static let keyUsageLimit = 1 << 36

  /// An engine that has not begun.
  init(_ context: TLSContext, as role: TLSRole) throws(TLSError) {
    state = TLSHandshakeState(context, role)
    let ssl = try unsafe context.makeSSL(for: state)
    do throws(TLSError) {
      rings = try BIOPair()
    } catch {
      // SAFETY: nobody else has it.
      unsafe SSL_free(ssl)
      throw error
    }
    unsafe rings.attach(to: ssl)
    unsafe self.ssl = ssl
  }

  // SAFETY: it is freed once, and before `rings`, whose other half it owns. The callbacks' state outlives it, for it is a property
  // of this value.
  deinit { unsafe SSL_free(ssl) }

  /// Whether there is something to send.
  var hasOutput: Bool { rings.hasOutput }
  /// Whether there is ciphertext that was not looked at.
  var hasInput: Bool { rings.hasInput }

  // MARK: The handshake

  /// Goes on with the handshake as far as it gets.
  mutating func handshake() -> HandshakeStep {
    if let failure { return .failed(failure) }
    // SAFETY: `ssl` is this value's.
    OpenSSLErrors.clear()
    let result = unsafe SSL_do_handshake(ssl)
    rings.updateAfterCall()
    if result == 1 {
      if let error = callbackFailure() { return .failed(error) }
      return .done
    }
    switch unsafe SSL_get_error(ssl, result) {
    case SSL_ERROR_WANT_READ: return .needsInput
    case SSL_ERROR_WANT_WRITE: return .needsOutput
    case SSL_ERROR_WANT_RETRY_VERIFY: return .needsVerifier
    case let error: return .failed(fail(error, isHandshake: true))
    }
  }

  /// Whether the handshake is done, as far as OpenSSL is concerned.
  // SAFETY: `ssl` is this value's.
  var isHandshakeComplete: Bool { unsafe SSL_is_init_finished(ssl) == 1 }

  /// What can be asked of the connection once it is up.
  // SAFETY: `ssl` is this value's.
  var session: TLSSession { unsafe TLSSession(ssl: ssl, state) }

  /// Derives bytes from the secrets of the connection: RFC 5705.
  func exportKeyingMaterial(_ label: String, _ context: [UInt8]?, count: Int) throws(TLSError) -> [UInt8] {
    // SAFETY: `ssl` is this value's.
    try unsafe TLSSession.exportKeyingMaterial(ssl, label, context, count: count)
  }

  // MARK: Ciphertext in

  /// Takes ciphertext in and appends what it decrypts, until all is used up or it cannot go on.
  ///
  /// - Parameters:
  ///   - ciphertext: From the peer.
  ///   - consumed: How much of it is taken in; the rest is to be given again.
  ///   - plaintext: Where the bytes go.
  /// - Returns: Why it stopped.
  mutating func read(
    feeding ciphertext: Span<UInt8>, _ consumed: inout Int, appendingTo plaintext: inout [UInt8]
  ) -> ReadStep {
    if let failure { return .failed(failure) }
    rings.grow(input: ciphertext.count)
    defer {
      rings.updateAfterCall()
      rings.shrink()
    }
    while true {
      var step = ReadStep.needsInput
      plaintext.append(addingCapacity: plaintextCapacity(for: ciphertext.count - consumed)) { tail in
        // SAFETY: the memory is valid for its capacity, and the count that is set is what OpenSSL wrote.
        unsafe tail.withUnsafeMutableBufferPointer { memory, initialized in
          repeat {
            let wasEmpty = !hasInput
            let taken = feed(ciphertext.extracting(consumed..<ciphertext.count))
            consumed += taken
            // An empty ring that takes nothing is none, and what is lost there must not go unnoticed.
            if taken == 0, consumed < ciphertext.count, wasEmpty {
              failure = .outOfMemory
              step = .failed(.outOfMemory)
              break
            }
            step = unsafe read(UnsafeMutableRawBufferPointer(memory), &initialized)
          } while step.needsInput && consumed < ciphertext.count
        }
      }
      if case .full = step { continue }
      return step
    }
  }

  /// How many bytes of plaintext may come of so many bytes of ciphertext and of what there is.
  private func plaintextCapacity(for count: Int) -> Int {
    // What is decrypted is shorter than what it was, but for a record of which the beginning came before. To copy what
    // came with it into a larger array is worth being avoided if it is much.
    // SAFETY: `ssl` is this value's.
    let hasPartialRecord = unsafe count > TLSRecord.maximumPlaintext && SSL_has_pending(ssl) == 1
    let pending = unsafe hasInput ? Int(SSL_pending(ssl)) + rings.inputCount : 0
    return max(pending + count + (hasPartialRecord ? TLSRecord.maximumPlaintext : 0), 64)
  }

  /// Puts as much ciphertext into the ring as it has room for.
  ///
  /// - Returns: How many bytes were put in.
  mutating func feed(_ ciphertext: Span<UInt8>) -> Int { rings.feed(ciphertext) }

  /// No more ciphertext comes.
  mutating func endInput() { rings.endInput() }

  /// Decrypts into the memory until it is full or OpenSSL cannot go on.
  private mutating func read(_ memory: UnsafeMutableRawBufferPointer, _ filled: inout Int) -> ReadStep {
    assert(failure == nil, "OpenSSL is not called after a fatal failure")
    while true {
      if filled == memory.count { return .full }
      // SAFETY: `ssl` is this value's, and the memory is valid for its count.
      OpenSSLErrors.clear()
      var count = 0
      let result = unsafe SSL_read_ex(ssl, memory.baseAddress.map { unsafe $0 + filled }, memory.count - filled, &count)
      filled += count
      // Bytes count, and not records, which may be empty.
      if count > 0 { state.messagesWithoutData = 0 }
      if result == 1 {
        // A call that would only say that there is no more is left out.
        if unsafe SSL_pending(ssl) == 0, !rings.inputIsOver, !rings.updateInput() { return .needsInput }
        continue
      }
      let error = unsafe SSL_get_error(ssl, result)
      if let failure = callbackFailure() { return .failed(failure) }
      switch error {
      case SSL_ERROR_WANT_READ:
        _ = rings.updateInput()
        return .needsInput
      case SSL_ERROR_WANT_WRITE: return .needsOutput
      // Where truncation is allowed, the end of the input is taken for the notice, within a record, too.
      case SSL_ERROR_ZERO_RETURN where state.receivedAlert == 0 || isBetweenRecords: return .ended
      default: return .failed(fail(error))
      }
    }
  }

  /// Whether no part of a record was taken in. Its header alone is not pending any more, but OpenSSL then waits for the body.
  private var isBetweenRecords: Bool {
    // SAFETY: `ssl` is this value's, and the text is static: "RB" while a body is read.
    unsafe SSL_has_pending(ssl) == 0 && SSL_rstate_string(ssl)[1] == UInt8(ascii: "H")
  }

  // MARK: Plaintext in

  /// Encrypts plaintext into the ring, record by record, as far as there is room.
  ///
  /// - Returns: How many bytes were taken, or why it failed.
  private mutating func encrypt(_ plaintext: Span<UInt8>) -> Result<Int, TLSError> {
    if let failure { return .failure(failure) }
    assert(!hasOutput, "nothing is encrypted while ciphertext waits")
    rings.grow(output: plaintext.count)
    var written = 0
    while written < plaintext.count {
      let room = rings.outputRoom - TLSRecord.maximumOverhead
      let length = min(plaintext.count - written, TLSRecord.maximumPlaintext, room)
      // A short record for want of room would be a waste, unless the ring is empty.
      if length <= 0 || length < plaintext.count - written && length < TLSRecord.maximumPlaintext && hasOutput { break }
      updateKeysIfDue()
      var count = 0
      OpenSSLErrors.clear()
      // SAFETY: `ssl` is this value's, and the pointer is valid for the count during the call, which only reads.
      let result = unsafe plaintext.extracting(written..<written + length).withUnsafeBytes { bytes in
        unsafe SSL_write_ex(ssl, bytes.baseAddress, bytes.count, &count)
      }
      if result != 1 {
        rings.updateAfterCall()
        let error = unsafe SSL_get_error(ssl, result)
        if error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE { break }
        return .failure(fail(error))
      }
      written += count
      bytesSinceKeyUpdate += count
      rings.recordWasWritten()
      // A peer that only takes data answers each of our key updates with one of its own.
      state.messagesWithoutData = 0
    }
    return .success(written)
  }

  /// Encrypts plaintext and shows what comes of it, as `withOutput` does, for as long as all of that is sent.
  ///
  /// - Returns: How many bytes were taken, none if something made before was not sent; or why it failed.
  mutating func write(_ plaintext: Span<UInt8>, sending body: (Span<UInt8>) -> Int) -> Result<Int, TLSError> {
    var written = 0
    while withOutput(body), written < plaintext.count {
      switch encrypt(plaintext.extracting(written..<plaintext.count)) {
      case .success(0): return .success(written)
      case .success(let count): written += count
      case .failure(let error): return .failure(error)
      }
    }
    rings.shrink()
    return .success(written)
  }

  private mutating func updateKeysIfDue() {
    if bytesSinceKeyUpdate < Self.keyUsageLimit { return }
    bytesSinceKeyUpdate = 0
    // SAFETY: `ssl` is this value's. Of a version that has none, it fails, and nothing changes.
    unsafe SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED)
  }

  /// Says that no more plaintext comes: close_notify. The peer may go on.
  mutating func finishWriting() {
    if failure != nil { return }
    // SAFETY: `ssl` is this value's.
    OpenSSLErrors.clear()
    let result = unsafe SSL_shutdown(ssl)
    rings.updateAfterCall()
    if result < 0, unsafe SSL_get_error(ssl, result) == SSL_ERROR_SSL { _ = fail(SSL_ERROR_SSL) }
  }

  // MARK: Ciphertext out

  /// How many bytes there are to send.
  var outputCount: Int { rings.outputCount }

  /// Shows what is to be sent, in as many pieces as lie apart in the ring; `body` says how much of a piece was. 0 ends it.
  ///
  /// - Returns: Whether all of it was sent.
  mutating func withOutput(_ body: (Span<UInt8>) -> Int) -> Bool { rings.withOutput(body) }

  /// Takes everything out that is to be sent.
  mutating func takeOutput() -> [UInt8] {
    var output: [UInt8] = []
    _ = withOutput { bytes in
      output.append(copying: bytes)
      return bytes.count
    }
    return output
  }

  /// Makes the rings small if they are empty.
  mutating func shrinkRings() { rings.shrink() }

  // MARK: Failures

  /// A callback found a reason to fail that OpenSSL has not.
  private mutating func callbackFailure() -> TLSError? {
    guard let error = state.failure else { return nil }
    failure = error
    return error
  }

  private mutating func fail(_ error: Int32, isHandshake: Bool = false) -> TLSError {
    // SAFETY: `ssl` is this value's.
    let failure = unsafe TLSError.lastFailure(of: ssl, state, result: error, isHandshake: isHandshake)
    self.failure = failure
    return failure
  }
}

extension TLSEngine.ReadStep {
  fileprivate var needsInput: Bool { if case .needsInput = self { true } else { false } }
}
