// One side of a TLS connection: OpenSSL, whose ciphertext passes through a `CiphertextBIO`. It does no input or output.
//
//                          read, feed         write
//    ciphertext ──▶ BIO ─────────────▶ SSL ──────────▶ BIO ──▶ ciphertext
//                                      │ ▲
//                                 read ▼ │ write
//                                   plaintext
//
// OpenSSL's rules for its callers, and how the engine follows them:
// - Each thread has one error queue. The engine clears it before a call, and reads it in the same function.
// - After a fatal failure OpenSSL must not be called again, least of all SSL_shutdown. The alert remains in the output
//   and is sent.
// - Every call, also a read, may write something for the peer: an alert, a ticket, the answer to a key
//   update. The engine's caller checks `hasOutput` after each call.
// - OpenSSL would have to be called again with the same bytes if a lack of room cut a write short. So the engine writes
//   only whole records for which there is room, and OpenSSL never holds back plaintext.
// - Decrypted bytes raise no event, so the engine reads until OpenSSL has nothing more.
// - OpenSSL waits for more input until it is told of the end (`endInput`).

internal import ActorSockets
internal import COpenSSL

@safe struct TLSEngine: ~Copyable {
  enum HandshakeStep {
    case done
    case needsInput
    /// There is no room for more ciphertext.
    case needsOutput
    /// A closure has to decide about the peer: see `PeerCheck.question`.
    case needsVerifier
    case failed(TLSError)
  }

  enum ReadStep {
    case needsInput
    case needsOutput
    /// There is no room for more plaintext.
    case full
    /// close_notify has arrived, or the input has ended and truncation is allowed.
    case ended
    case failed(TLSError)
  }

  let state: TLSHandshakeState
  private let ssl: OpaquePointer
  private let bio: CiphertextBIO
  private(set) var failure: TLSError?
  private var bytesSinceKeyUpdate = 0

  /// In bytes. It is far below the limit for AES-GCM, 2^24.5 full records: RFC 8446, section 5.5.
  private static let keyUsageLimit = 1 << 36

  init(_ context: TLSContext, as role: TLSRole) throws(TLSError) {
    state = TLSHandshakeState(context, role)
    let ssl = try unsafe context.makeSSL(for: state)
    do throws(TLSError) {
      bio = try CiphertextBIO()
    } catch {
      // SAFETY: the connection has no other user.
      unsafe SSL_free(ssl)
      throw error
    }
    unsafe bio.attach(to: ssl)
    unsafe self.ssl = ssl
  }

  // SAFETY: `ssl` is freed once, before `bio`, whose functions it may call. The callbacks' state is a property
  // of this value and outlives it.
  deinit { unsafe SSL_free(ssl) }

  var hasOutput: Bool { bio.buffers.hasOutput }
  var hasInput: Bool { bio.buffers.hasInput }

  // MARK: The handshake

  mutating func handshake() -> HandshakeStep {
    if let failure { return .failed(failure) }
    // SAFETY: `ssl` is this value's.
    OpenSSLErrors.clear()
    let result = unsafe SSL_do_handshake(ssl)
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

  // SAFETY: `ssl` is this value's.
  var isHandshakeComplete: Bool { unsafe SSL_is_init_finished(ssl) == 1 }

  /// Valid once the handshake is complete.
  // SAFETY: `ssl` is this value's.
  var session: TLSSession { unsafe TLSSession(ssl: ssl, state) }
  /// Costs far less than `session`. Valid once the handshake is complete.
  // SAFETY: `ssl` is this value's.
  var brief: (version: TLSVersion, serverName: String?) {
    unsafe (TLSSession.version(of: ssl), TLSSession.serverName(of: ssl, state))
  }

  func exportKeyingMaterial(_ label: String, _ context: [UInt8]?, count: Int) throws(TLSError) -> [UInt8] {
    // SAFETY: `ssl` is this value's.
    try unsafe TLSSession.exportKeyingMaterial(ssl, label, context, count: count)
  }

  // MARK: Ciphertext in

  /// Appends the plaintext until all ciphertext is consumed or OpenSSL cannot continue. `consumed` counts the bytes
  /// taken in; the caller passes the rest again.
  mutating func read(
    feeding ciphertext: Span<UInt8>, _ consumed: inout Int, appendingTo plaintext: inout [UInt8]
  ) -> ReadStep {
    if let failure { return .failed(failure) }
    var capacity = plaintextCapacity(for: ciphertext.count)
    while true {
      var step = ReadStep.needsInput
      plaintext.append(addingCapacity: capacity) { tail in
        // SAFETY: the memory is valid for its capacity, and the count is what OpenSSL wrote.
        unsafe tail.withUnsafeMutableBufferPointer { memory, initialized in
          repeat {
            unsafe ciphertext.extracting(consumed..<ciphertext.count).withUnsafeBytes { bytes in
              unsafe bio.buffers.lend(bytes)
              step = unsafe read(UnsafeMutableRawBufferPointer(memory), &initialized)
              consumed += bio.buffers.takeBack()
            }
          } while step.needsInput && consumed < ciphertext.count
        }
      }
      guard case .full = step else { return step }
      // SAFETY: `ssl` is this value's.
      capacity = unsafe Int(SSL_pending(ssl)) + max(ciphertext.count - consumed, 64)
    }
  }

  private func plaintextCapacity(for count: Int) -> Int {
    // Plaintext is shorter than its ciphertext, except for a record that began in an earlier call. Room for that record
    // is added if there is much ciphertext, to avoid copying it all into a larger array.
    // SAFETY: `ssl` is this value's.
    let hasPartialRecord = unsafe count > TLSRecord.maximumPlaintext && SSL_has_pending(ssl) == 1
    return max(count + (hasPartialRecord ? TLSRecord.maximumPlaintext : 0), 64)
  }

  func feed(_ ciphertext: Span<UInt8>) -> Int { bio.buffers.feed(ciphertext) }

  func endInput() { bio.buffers.endInput() }

  private mutating func read(_ memory: UnsafeMutableRawBufferPointer, _ filled: inout Int) -> ReadStep {
    assert(failure == nil, "OpenSSL is not called after a fatal failure")
    while true {
      if filled == memory.count { return .full }
      // SAFETY: `ssl` is this value's, and the memory is valid for its count.
      OpenSSLErrors.clear()
      var count = 0
      let result = unsafe SSL_read_ex(ssl, memory.baseAddress.map { unsafe $0 + filled }, memory.count - filled, &count)
      filled += count
      // Only bytes reset the count: records may be empty.
      if count > 0 { state.messagesWithoutData = 0 }
      if result == 1 {
        // Saves a call that would only report that there is no more.
        if unsafe SSL_pending(ssl) == 0, !bio.buffers.inputIsOver, !bio.buffers.hasInput { return .needsInput }
        continue
      }
      let error = unsafe SSL_get_error(ssl, result)
      if let failure = callbackFailure() { return .failed(failure) }
      switch error {
      case SSL_ERROR_WANT_READ:
        return .needsInput
      case SSL_ERROR_WANT_WRITE: return .needsOutput
      // If truncation is allowed, OpenSSL reports the end of the input like close_notify, even within a record.
      case SSL_ERROR_ZERO_RETURN where state.receivedAlert == 0 || isBetweenRecords: return .ended
      default: return .failed(fail(error))
      }
    }
  }

  /// OpenSSL does not count a header as pending, but waits for the body after it.
  var isBetweenRecords: Bool {
    // SAFETY: `ssl` is this value's, and the text is static: "RB" while a body is read.
    unsafe SSL_has_pending(ssl) == 0 && SSL_rstate_string(ssl)[1] == UInt8(ascii: "H")
  }

  // MARK: Plaintext in

  /// Returns the number of bytes encrypted. Stops when there is no room for another record.
  private mutating func encrypt(_ plaintext: Span<UInt8>) -> Result<Int, TLSError> {
    if let failure { return .failure(failure) }
    assert(!hasOutput, "nothing is encrypted while ciphertext waits")
    var written = 0
    while written < plaintext.count {
      let room = bio.buffers.outputRoom - TLSRecord.maximumOverhead
      let length = min(plaintext.count - written, TLSRecord.maximumPlaintext, room)
      // Waits for room instead of making a short record, unless there is no output.
      if length <= 0 || length < plaintext.count - written && length < TLSRecord.maximumPlaintext && hasOutput { break }
      updateKeysIfDue()
      var count = 0
      OpenSSLErrors.clear()
      // SAFETY: `ssl` is this value's, and the pointer is valid for the count during the call, which only reads.
      let result = unsafe plaintext.extracting(written..<written + length).withUnsafeBytes { bytes in
        unsafe SSL_write_ex(ssl, bytes.baseAddress, bytes.count, &count)
      }
      if result != 1 {
        let error = unsafe SSL_get_error(ssl, result)
        if error == SSL_ERROR_WANT_READ || error == SSL_ERROR_WANT_WRITE { break }
        return .failure(fail(error))
      }
      written += count
      bytesSinceKeyUpdate += count
      // A peer that only receives answers each of our key updates with one of its own.
      state.messagesWithoutData = 0
    }
    return .success(written)
  }

  /// Encrypts as long as the sink takes all of the ciphertext. Returns the number of bytes encrypted, 0 if earlier ciphertext was not sent.
  mutating func write(_ plaintext: Span<UInt8>, to sink: any CiphertextSink) -> Result<Int, TLSError> {
    bio.buffers.beginWriting(plaintext.count, to: sink)
    defer { bio.buffers.endWriting() }
    var written = 0
    while flush(to: sink), written < plaintext.count {
      switch encrypt(plaintext.extracting(written..<plaintext.count)) {
      case .success(0): return .success(written)
      case .success(let count): written += count
      case .failure(let error): return .failure(error)
      }
    }
    return .success(written)
  }

  private mutating func updateKeysIfDue() {
    if bytesSinceKeyUpdate < Self.keyUsageLimit { return }
    bytesSinceKeyUpdate = 0
    // SAFETY: `ssl` is this value's. In a version without key updates the call fails and changes nothing.
    unsafe SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED)
  }

  /// Makes close_notify: no more plaintext follows. The peer may continue to send.
  mutating func finishWriting() {
    if failure != nil { return }
    bio.buffers.makeRoomForLastRecord()
    // SAFETY: `ssl` is this value's.
    OpenSSLErrors.clear()
    let result = unsafe SSL_shutdown(ssl)
    if result < 0, unsafe SSL_get_error(ssl, result) == SSL_ERROR_SSL { _ = fail(SSL_ERROR_SSL) }
  }

  // MARK: Ciphertext out

  var outputCount: Int { bio.buffers.outputCount }

  /// Returns whether the sink took all of the ciphertext.
  mutating func flush(to sink: any CiphertextSink) -> Bool { bio.buffers.withOutput { sink.sendCiphertext($0) } }

  func takeOutput() -> [UInt8] {
    var output: [UInt8] = []
    _ = bio.buffers.withOutput { bytes in
      output.append(copying: bytes)
      return bytes.count
    }
    return output
  }

  // MARK: Failures

  /// A failure that a callback found and that OpenSSL does not know.
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
