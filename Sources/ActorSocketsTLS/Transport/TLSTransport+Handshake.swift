internal import ActorSockets
internal import EpollReactor
internal import SocketSystem

extension TLSTransport {
  /// `bytes` arrived before, in plain text.
  func begin(after bytes: [UInt8]) {
    guard phase == .waiting else { return }
    do throws(TLSError) {
      switch setup.role {
      case .client: try makeEngine()
      case .server: try setup.context.check(.server)
      }
    } catch {
      return fail(error)
    }
    phase = .handshaking
    let limit = setup.context.configuration.handshakeTimeout
    handshake.deadline = registration.arm(
      at: instant(registration.reactor.now, plus: limit.clampedNanoseconds),
      tag: DeadlineTag(.handshake))
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

  private func makeEngine() throws(TLSError) { engine = try TLSEngine(setup.context, as: setup.role) }

  func continueHandshake() {
    while phase == .handshaking {
      guard let step = engine?.handshake() else {
        if feedHandshake() { continue } else { return }
      }
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

  /// Returns false if there is no more ciphertext now, or the handshake has failed.
  private func feedHandshake() -> Bool {
    if isAwaitingHello, handshake.helloBytes == 0 {
      switch ClientHello.progress(in: pendingCiphertext.span, isRetry: engine != nil) {
      case .incomplete: break
      case .complete(let count): return helloHasArrived(count)
      case .before(let count):
        handshake.helloBytes = count
        feedPending()
        return true
      case .noHello(let count):
        handshake.isNoHello = true
        pendingCiphertext.removeLast(pendingCiphertext.count - count)
        return helloHasArrived(count)
      case .tooLarge:
        let detail = "the client's first message has more than \(ClientHello.limit) bytes, the limit"
        return refuseHello(TLSAlert.illegalParameter, detail)
      }
    } else if !pendingCiphertext.isEmpty {
      feedPending()
      return true
    }
    if handshake.isNoHello {
      return refuseHello(TLSAlert.unexpectedMessage, "what the client sent is not a hello, or not only a hello")
    }
    guard let carrier else { return false }
    let result = carrier.receive(atMost: Self.recordSize) {
      if isAwaitingHello { pendingCiphertext.append(copying: $0) } else { feed($0) }
    }
    switch result {
    case .bytes(0): return endHandshakeInput()
    case .bytes: return true
    case .wouldBlock: return false
    case .failed(let error):
      let failure = SocketError(error, operation: "handshake")
      end(failure, CloseReport.Reason(failure))
      // Returns false so that the handshake does not continue: if the connection was dropped just now, `end` reached no
      // core.
      return false
    }
  }

  private func endHandshakeInput() -> Bool {
    guard engine != nil else {
      fail(TLSError(.closedDuringHandshake))
      return false
    }
    engine?.state.awaitsSecondHello = false
    // The carrier says again that it has ended when the engine has taken what came before.
    if pendingCiphertext.isEmpty { engine?.endInput() }
    return true
  }

  /// Whether a server keeps what arrives in `pendingCiphertext`, until the client's hello is complete.
  private var isAwaitingHello: Bool { engine?.state.awaitsSecondHello ?? true }

  /// Gives the engine `count` bytes: the hello, or bytes that are not one. Bytes after them are fed later, because they
  /// may be a second hello. Returns false if the handshake has failed.
  private func helloHasArrived(_ count: Int) -> Bool {
    if engine == nil {
      do throws(TLSError) {
        try makeEngine()
      } catch {
        fail(error)
        return false
      }
    }
    engine?.state.awaitsSecondHello = false
    handshake.helloBytes = count
    feedPending()
    return true
  }

  /// Sends the alert here, because there may be no engine.
  private func refuseHello(_ alert: UInt8, _ detail: String) -> Bool {
    let record = TLSAlert.record(alert)
    if engine?.hasOutput != true { _ = carrier?.send(record.span) }
    fail(TLSError(.protocolError, detail: detail, alert: TLSAlert.name(alert)))
    return false
  }

  private func feedPending() {
    var waiting: [UInt8] = []
    swap(&waiting, &pendingCiphertext)
    feed(waiting.span)
  }

  private func feed(_ bytes: Span<UInt8>) {
    let count = handshake.helloBytes > 0 ? min(handshake.helloBytes, bytes.count) : bytes.count
    guard let consumed = engine?.feed(bytes.extracting(first: count)) else { return }
    handshake.helloBytes = max(0, handshake.helloBytes - consumed)
    keepPending(bytes, from: consumed)
  }

  private func handshakeIsDone() {
    if engine?.state.peerCheck.needsAnswer == true { return askVerifier() }
    open()
  }

  private func open() {
    phase = .up
    disarmDeadline()
    carrier?.handshakeIsDone { session?.observed }
    core?.open()
    readAhead()
  }

  private func askVerifier() {
    let verification = setup.context.configuration.verification
    guard let peer = engine?.state.peerCheck.question, case .custom(let decide) = verification
    else { return fail(TLSError(.internalError, detail: "there is no closure to verify the peer")) }
    phase = .verifying
    handshake.verifierTask = Task.detached { [weak connection] in
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

  func verifierAnswered(_ answer: Result<Void, TLSError>) {
    guard phase == .verifying else { return }
    handshake.verifierTask = nil
    engine?.state.peerCheck.answer = answer
    phase = .handshaking
    switch answer {
    case .failure(let error) where engine?.isHandshakeComplete == true: fail(error)
    default: continueHandshake()
    }
  }

  func deadlineReached() {
    handshake.deadline = nil
    let limit = setup.context.configuration.handshakeTimeout
    fail(TLSError(.handshakeTimedOut, detail: "the handshake was not done in \(limit)"))
  }

  func limit(_ limit: ConnectLimit) {
    handshake.connectLimit = limit
    arm(limit, at: limit.timeout.end(startingAt: limit.started))
  }

  private func arm(_ limit: ConnectLimit, at time: Int64) {
    limit.deadline = registration.arm(at: time, tag: DeadlineTag(.connect))
  }

  func connectTimedOut() {
    guard let limit = handshake.connectLimit else { return }
    limit.deadline = nil
    let now = registration.reactor.now
    if let more = limit.timeout.extend?(.nanoseconds(now - limit.started), 0), more > .zero {
      return arm(limit, at: instant(now, plus: more.clampedNanoseconds))
    }
    let error = SocketError(
      .timedOut, operation: "connect", detail: "the TLS handshake was not complete \(limit.timeout.limit)",
      address: connection?.remoteAddress)
    core?.terminate(error, .timedOut)
  }

  func fail(_ error: TLSError) {
    let failure = SocketError(layer: error, operation: "handshake")
    self.failure = failure
    end(failure, .error(failure))
  }

  func end(_ error: SocketError, _ reason: CloseReport.Reason) {
    core?.terminate(error, reason, givingUp: true)
  }

  func disarmDeadline() {
    if let deadline = handshake.deadline.take() { registration.disarm(deadline) }
    if let deadline = handshake.connectLimit.take()?.deadline { registration.disarm(deadline) }
  }
}
