internal import ActorSockets
internal import EpollReactor
internal import SocketSystem

// The handshake: the engine says what it needs, and a closure of the program's may have the last word. See `TLSTransport`.

/// The tags of an encrypted connection's deadlines, besides those of its stream.
package enum HandshakeDeadline: UInt64, Sendable {
  case handshake
}

extension TLSTransport {
  /// Begins the handshake; so many bytes had arrived before.
  func begin(after bytes: [UInt8]) {
    guard phase == .waiting else { return }
    do throws(TLSError) {
      engine = try TLSEngine(setup.context, as: setup.role)
    } catch {
      return fail(error)
    }
    phase = .handshaking
    let limit = setup.context.configuration.handshakeTimeout
    deadline = registration.arm(
      at: instant(registration.now, plus: limit.clampedNanoseconds),
      tag: ConnectionDeadline.own(HandshakeDeadline.handshake).rawValue)
    if !bytes.isEmpty {
      if setup.earlyBytes == .refused {
        let count = bytes.count == 1 ? "1 byte" : "\(bytes.count) bytes"
        let detail = "\(count) had arrived in plain text before the handshake began"
        return fail(TLSError(.plaintextBeforeTLS, detail: detail))
      }
      pendingCiphertext = bytes
    }
    continueHandshake()
  }

  func continueHandshake() {
    while phase == .handshaking, let step = engine?.handshake() {
      let isFlushed = flush()
      switch step {
      case .done: return handshakeIsDone()
      case .needsVerifier: return askVerifier()
      case .needsOutput: if !isFlushed { return }
      case .needsInput: if !feedHandshake() { return }
      case .failed(let error): return fail(error)
      }
    }
  }

  /// Gives the handshake more of the peer's bytes; false if there are none now.
  private func feedHandshake() -> Bool {
    if !pendingCiphertext.isEmpty {
      var waiting: [UInt8] = []
      swap(&waiting, &pendingCiphertext)
      feed(waiting.span)
      return true
    }
    guard let carrier else { return false }
    switch carrier.receive(atMost: Self.recordSize, showing: { feed($0) }) {
    case .bytes(0): engine?.endInput()
    case .bytes: break
    case .wouldBlock: return false
    case .failed(let error):
      let failure = SocketError(error, operation: "handshake")
      end(failure, CloseReport.Reason(failure))
      // Not so that it goes on: of a connection that was dropped just now, nobody has heard of the end.
      return false
    }
    return true
  }

  /// Gives the engine as much as it takes; the rest waits.
  private func feed(_ bytes: Span<UInt8>) {
    if let consumed = engine?.feed(bytes) { keepPending(bytes, from: consumed) }
  }

  private func handshakeIsDone() {
    if let state = engine?.state, state.peerToVerify != nil, state.verifierAnswer == nil { return askVerifier() }
    open()
  }

  private func open() {
    phase = .up
    disarmDeadline()
    engine?.shrinkRings()
    carrier?.handshakeIsDone { session?.observed }
    core?.open()
    readAhead()
  }

  /// Asks the program's closure about the peer.
  private func askVerifier() {
    guard let peer = engine?.state.peerToVerify, case .custom(let decide) = setup.context.configuration.verification
    else { return fail(TLSError(.internalError, detail: "there is no closure to verify the peer")) }
    phase = .verifying
    verifierTask = Task.detached { [weak connection] in
      let answer: Result<Void, TLSError>
      do {
        answer = try await decide(peer) ? .success(()) : .failure(TLSError(.rejected))
      } catch {
        let detail = "the program refused the peer's certificate: \(error)"
        answer = .failure(TLSError(.rejected, detail: detail, underlyingError: error))
      }
      connection?.submit { $0.transport.verifierAnswered(answer) }
    }
  }

  /// The closure has decided.
  func verifierAnswered(_ answer: Result<Void, TLSError>) {
    guard phase == .verifying else { return }
    verifierTask = nil
    engine?.state.verifierAnswer = answer
    phase = .handshaking
    switch answer {
    case .failure(let error) where engine?.isHandshakeComplete == true: fail(error)
    default: continueHandshake()
    }
  }

  /// The handshake's time is over.
  func deadlineReached() {
    deadline = nil
    let limit = setup.context.configuration.handshakeTimeout
    fail(TLSError(.handshakeTimedOut, detail: "the handshake was not done in \(limit)"))
  }

  func fail(_ error: TLSError) {
    let failure = SocketError(layer: error, operation: "handshake")
    self.failure = failure
    carrier?.handshakeFailed(error)
    end(failure, .error(failure))
  }

  func end(_ error: SocketError, _ reason: CloseReport.Reason) {
    core?.terminate(error, reason, givingUp: true)
  }

  func disarmDeadline() { if let deadline = deadline.take() { registration.disarm(deadline) } }
}
