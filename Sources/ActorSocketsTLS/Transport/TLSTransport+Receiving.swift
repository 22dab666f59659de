internal import ActorSockets
internal import EpollReactor
internal import SocketSystem

// How ciphertext arrives through the carrier and the engine. See `TLSTransport`, and `TLSReceiveState` for its decisions.

extension TLSTransport {
  /// Less than so much plaintext is kept that nobody asked for, and another record; more if somebody waits for the peer's end.
  private static let readAheadLimit = 16_384
  private static let readAheadLimitForEnd = 65_536
  /// What is received at a time that nobody asked for: a record.
  static let recordSize = 17_408
  /// So much ciphertext may hold no plaintext before others have their turn.
  private static let share = 262_144

  // MARK: What there is

  /// Not while it is paused: whoever receives again and again as long as there is something would do so for ever.
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
  /// Whether there are received bytes that are not decrypted.
  private var hasCiphertext: Bool { engine?.hasInput == true || !pendingCiphertext.isEmpty }
  /// Whether receiving may bring something.
  var mayHaveMore: Bool { receiving.ending == nil && (carrier?.isReadable == true || hasCiphertext) }

  func tryAnyway() {
    carrier?.tryAnyway()
    _ = flush()
  }

  // MARK: For a read

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
      // Of what was left alone for want of room there, no event tells again.
      if receiving.noteRead(of: count) || mayHaveMore { registration.askForTurn() }
      return .bytes(count)
    }
    let result = receive(atMost: .max, into: &buffer)
    // Found behind bytes, the end would be told to the next read alone.
    if case .bytes(let count) = result, receiving.noteRead(of: count) { registration.askForTurn() }
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

  // MARK: For nobody

  func lookForEnd() { readAhead() }

  /// Takes in what comes though nobody reads: up to a record. Tells the end if it is found, or was with bytes that were read.
  func readAhead() {
    let limit = core?.isEndAwaited == true ? Self.readAheadLimitForEnd : Self.readAheadLimit
    while phase == .up, plaintext.count < limit, mayHaveMore {
      let result = readAheadOnce()
      if case .failed(let error) = result, receiving.ending == nil {
        // The carrier says it once, and the bytes that came before are to be read first.
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

  /// The peer has gone. What came before may be an alert that says why.
  func receiveLastAlert() {
    // A write may have found it out before any event said that something has come.
    carrier?.tryAnyway()
    while plaintext.count < Self.readAheadLimit, mayHaveMore {
      guard case .bytes(1...) = readAheadOnce() else { return }
    }
  }

  /// Receives a record, or as much of it as there is, that nobody asked for.
  private func readAheadOnce() -> Transfer {
    var bytes = ByteQueue()
    swap(&bytes, &plaintext)
    defer { swap(&bytes, &plaintext) }
    return receive(atMost: Self.recordSize, into: &bytes)
  }

  // MARK: Through the engine

  /// Decrypts what the carrier has, of which it receives at most so much at a time, until there are bytes.
  private func receive(atMost limit: Int, into buffer: inout ByteQueue) -> Transfer {
    let before = buffer.count
    var share = Self.share
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
        case .bytes(let count): share -= count
        case .wouldBlock: return .wouldBlock
        case .failed(let error): return .failed(error)
        }
      }
      if buffer.count > before { return .bytes(buffer.count - before) }
      // Nothing more is taken in before what the engine has to say can be said.
      let isBlocked = hasCiphertext && engine?.hasOutput == true
      if isBlocked || share <= 0 && registration.askForTurn() {
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

  /// Decrypts ciphertext; what cannot be taken in now goes to `pendingCiphertext`.
  private func decrypt(_ ciphertext: Span<UInt8>, into buffer: inout ByteQueue) {
    var consumed = 0
    if sending.inputArrives() { registration.askForTurn() }
    while let step = buffer.append({ engine?.read(feeding: ciphertext, &consumed, appendingTo: &$0) }) {
      // Reading may have made something to send: the answer to a key update, an alert.
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

  /// Keeps what the engine did not take. Whatever waited before was taken out to be given to it.
  func keepPending(_ ciphertext: Span<UInt8>, from consumed: Int) {
    assert(pendingCiphertext.isEmpty, "ciphertext that came later must not replace what waits")
    if consumed < ciphertext.count {
      pendingCiphertext = [UInt8](copying: ciphertext.extracting(consumed..<ciphertext.count))
    }
  }

  /// The carrier has ended: the engine says whether the peer had said so.
  private func endInput(_ buffer: inout ByteQueue) {
    engine?.endInput()
    let nothing: [UInt8] = []
    decrypt(nothing.span, into: &buffer)
    // It cannot say so, for it has something to send first that nobody will take.
    if receiving.ending == nil { failReceiving(SocketError(layer: TLSError(.truncated), operation: "read")) }
  }

  /// Nothing more can be received.
  private func failReceiving(_ error: SocketError) {
    failure = error
    receiving.end(.failed)
  }
}
