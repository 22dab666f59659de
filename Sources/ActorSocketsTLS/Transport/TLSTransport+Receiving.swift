internal import ActorSockets
internal import EpollReactor
internal import SocketSystem

// How ciphertext arrives through the carrier and the engine. See `TLSTransport`, and `TLSReceiveState` for its decisions.

extension TLSTransport {
  /// Reading ahead stops once this much plaintext waits for a read. One more record may come with it. The limit is
  /// higher while a caller waits for the peer's end.
  private static let readAheadLimit = 16_384
  private static let readAheadLimitForEnd = 65_536
  /// The most ciphertext that one step of reading ahead receives: a record.
  static let recordSize = 17_408
  /// After this much ciphertext without any plaintext, the transport lets other sockets run first.
  private static let budget = 262_144

  // MARK: State

  /// While receiving is paused, only waiting plaintext counts: see `TLSReceiveState`.
  var isReadable: Bool {
    if !plaintext.isEmpty { return true }
    return switch receiving {
    case .open: hasCiphertext || carrier?.isReadable ?? false
    case .paused: false
    case .ended: true
    }
  }
  var isAtEnd: Bool { plaintext.isEmpty && receiving.ending != nil }
  var hasFoundEnd: Bool { receiving.ending == .endOfStream }
  private var hasCiphertext: Bool { engine?.hasInput == true || !pendingCiphertext.isEmpty }
  var hasPartialInput: Bool { mayHaveMore || engine?.isBetweenRecords == false }
  var mayHaveMore: Bool { receiving.ending == nil && (carrier?.isReadable == true || hasCiphertext) }

  func forceAttempt() {
    carrier?.forceAttempt()
    _ = flush()
  }

  // MARK: Receiving for a read

  func receive(into buffer: inout ByteQueue, wanted: Int) -> Transfer {
    if !plaintext.isEmpty {
      var waiting = ByteQueue()
      swap(&waiting, &plaintext)
      let count = waiting.count
      if buffer.isEmpty {
        swap(&buffer, &waiting)
      } else {
        waiting.withBytes { buffer.append($0) }
      }
      // No event reports again what the transport left in the carrier because `plaintext` was full.
      if receiving.noteRead(of: count) || mayHaveMore { registration.reschedule() }
      return .bytes(count)
    }
    let result = receive(atMost: .max, into: &buffer)
    // If the end was found after these bytes, only the next read would report it.
    if case .bytes(let count) = result, receiving.noteRead(of: count) { registration.reschedule() }
    return result
  }

  func receive(atMost limit: Int, restInto buffer: inout ByteQueue, showing body: (Span<UInt8>) -> Int) -> Transfer {
    var arrived = ByteQueue()
    let result = receive(into: &arrived, wanted: 1)
    if case .bytes(let count) = result, count > 0 {
      arrived.drop(arrived.withBytes(body))
      arrived.withBytes { buffer.append($0) }
    }
    return result
  }

  // MARK: Reading ahead

  func readUntilEnd() { readAhead() }

  /// Receives although no read waits. Reports the end if it is found now, or was found together with bytes that a read got.
  func readAhead() {
    let limit = core?.isEndAwaited == true ? Self.readAheadLimitForEnd : Self.readAheadLimit
    while phase == .up, plaintext.count < limit, mayHaveMore {
      let result = readAheadOnce()
      if case .failed(let error) = result, receiving.ending == nil {
        // The carrier reports its failure once. Reads get the bytes that came before it first.
        failReceiving(SocketError(error, operation: "connection"))
      }
      if case .wouldBlock = result { return }
    }
    guard phase == .up else { return }
    switch receiving.ending {
    case .endOfStream: core?.peerFinished()
    case .failed: core?.transportBroke(failure ?? SocketError(.closed, operation: "connection"))
    case nil: break
    }
  }

  /// Receives what arrived before the carrier failed: it may end with an alert that says why.
  func receiveLastAlert() {
    // The failure may have been found by a write, before any event reported that something has arrived.
    carrier?.forceAttempt()
    while plaintext.count < Self.readAheadLimit, mayHaveMore {
      guard case .bytes(1...) = readAheadOnce() else { return }
    }
  }

  private func readAheadOnce() -> Transfer {
    var bytes = ByteQueue()
    swap(&bytes, &plaintext)
    defer { swap(&bytes, &plaintext) }
    return receive(atMost: Self.recordSize, into: &bytes)
  }

  // MARK: Decrypting

  /// Receives and decrypts until there is plaintext. One receive from the carrier brings at most `limit` bytes.
  private func receive(atMost limit: Int, into buffer: inout ByteQueue) -> Transfer {
    let before = buffer.count
    var budget = Self.budget
    while true {
      if let ending = receiving.ending { return transfer(for: ending) }
      guard let carrier else { return .wouldBlock }
      if hasCiphertext {
        var waiting: [UInt8] = []
        swap(&waiting, &pendingCiphertext)
        decrypt(waiting.span, into: &buffer)
      } else {
        let result = carrier.receive(atMost: limit) { decrypt($0, into: &buffer) }
        switch result {
        case .bytes(0): endInput(&buffer)
        case .bytes(let count): budget -= count
        case .wouldBlock: return .wouldBlock
        case .failed(let error): return .failed(error)
        }
      }
      if buffer.count > before { return .bytes(buffer.count - before) }
      // The engine has to send something first: nothing more is received until the carrier takes it.
      let isBlocked = hasCiphertext && engine?.hasOutput == true
      if isBlocked || budget <= 0 && registration.reschedule() {
        receiving.pause()
        return .wouldBlock
      }
    }
  }

  private func transfer(for ending: TLSReceiveState.Ending) -> Transfer {
    switch ending {
    case .endOfStream: .bytes(0)
    case .failed: .failed(SystemError(call: "SSL_read", errno: Errno.protocolError))
    }
  }

  private func decrypt(_ ciphertext: Span<UInt8>, into buffer: inout ByteQueue) {
    var consumed = 0
    if sending.inputArrives() { registration.reschedule() }
    while let step = buffer.append({ engine?.read(feeding: ciphertext, &consumed, appendingTo: &$0) }) {
      // Decrypting may have produced ciphertext: the answer to a key update, or an alert.
      let isFlushed = flush()
      switch step {
      case .needsInput, .full: return
      case .needsOutput:
        if isFlushed { continue }
        keepPending(ciphertext, from: consumed)
        return
      case .ended: return receiving.end(.endOfStream)
      case .failed(let error): return failReceiving(SocketError(layer: error, operation: "read"))
      }
    }
  }

  func keepPending(_ ciphertext: Span<UInt8>, from consumed: Int) {
    assert(pendingCiphertext.isEmpty, "ciphertext that came later must not replace what waits")
    if consumed < ciphertext.count {
      pendingCiphertext = [UInt8](copying: ciphertext.extracting(consumed..<ciphertext.count))
    }
  }

  /// The engine knows whether the peer has announced the end.
  private func endInput(_ buffer: inout ByteQueue) {
    engine?.endInput()
    let nothing: [UInt8] = []
    decrypt(nothing.span, into: &buffer)
    // The engine cannot tell, because it has to send something first that the carrier will not take.
    if receiving.ending == nil { failReceiving(SocketError(layer: TLSError(.truncated), operation: "read")) }
  }

  private func failReceiving(_ error: SocketError) {
    failure = error
    receiving.end(.failed)
  }
}
