package import EpollReactor
package import SocketSystem

/// What a stream is made of, behind its public face: the two queues, the transport that moves the bytes, the deadlines,
/// the close.
///
/// It belongs to one actor and is touched in that actor's isolation alone: by its methods, and by the reactor's events,
/// which arrive in the same isolation. The queues decide; this class carries out what they say: it moves bytes, arms
/// deadlines, resumes callers. None of its synchronous methods can be interrupted, so nothing changes between a
/// decision and the act.
///
/// Every suspended call is resumed once: a queue hands an operation out once, by `.finish` or `remove`, and whoever gets
/// it resumes it.
public final class StreamCore {
  /// What a stream can be told to do differently.
  package struct Options: Sendable {
    package var writeBudget = 1 << 20
    package var closeTimeout: Duration = .seconds(30)
    package var closesOnEndOfStream = false
    package var closesOnTimeout = false
    package init() {}
  }

  let transport: any StreamTransport
  let registration: Registration
  package var options: Options
  private(set) weak var owner: (any QueuedByteStream)?
  /// Holds the actor while something is under way that nobody awaits.
  var keepAlive: (any QueuedByteStream)?

  var reads = ReadQueue<Operation>()
  var writes = WriteQueue<Operation>()
  var bytesReceived = 0
  var bytesSent = 0
  /// Who hears of its beginning and end, if anybody does.
  var observation: Observation?
  /// The idle timeout, if there is one.
  let idleWatch: IdleWatch?
  var state = StreamState.connecting
  var closing = Closing.no
  /// The rest of writes that were given up does not keep the connection any more.
  var restIsLetGo = false
  /// The peer finished, as an event or a receive said.
  private(set) var peerIsFinished = false
  /// The first operation takes what can be done at once.
  var readIsImmediate = false
  var writeIsImmediate = false
  var readHasProgress = false
  var writeHasProgress = false
  /// A pump is at work: what is admitted from within (a closure of the user's) waits for it.
  private var isPumpingReads = false
  private var isPumpingWrites = false
  var closeDeadline: DeadlineKey?
  var restDeadline: DeadlineKey?
  var report: CloseReport?
  /// The report's reason if this side closes the stream without the user's request, because an operation timed out.
  var closeReason: CloseReport.Reason?
  var closedWaiters = Waiters<CloseReport>()
  /// Those who await `close()`: the descriptor is gone.
  var goneWaiters = Waiters<Void>()
  /// What there is only while somebody waits for an acknowledgement.
  var acknowledgementWait: AcknowledgementWait?
  var peerFinishedWaiters = Waiters<Void>()
  /// Those who wait for the stream to be up.
  var openWaiters = Waiters<Void>()
  /// What ended it at once: could not connect, timed out, was shut down, was aborted.
  var endedBy: SocketError?
  /// What broke the connection.
  private(set) var brokenBy: SocketError?
  var pendingHandles = 0
  /// The last read of a call that is over, with all that belongs to it: most reads are alone, one after the other.
  private var spareRead: ReadQueue<Operation>.Entry?
  /// What has taken the stream over, or is about to.
  var upgrade: Upgrade?
  /// Called when the descriptor is gone, for a layer that has let go.
  var whenGone: (() -> Void)?
  /// Whether a layer has failed and left this stream to close by itself. The layer's last bytes may tell the peer why.
  package var endsAfterFailure = false
  /// What broke the connection after the peer's end, and the bytes that were not sent then.
  private(set) var lost: (error: SocketError, bytes: Int)?
  /// What the task waits for, or waited for last, that attends to the stream.
  var attendantCall: QueuedCall?
  var readShare = Share()
  var writeShare = Share()
  var isPumping: Bool { isPumpingReads || isPumpingWrites }

  /// A core without bytes, connecting.
  package init(
    transport: any StreamTransport, registration: Registration, options: Options, idleTimeout: Duration? = nil
  ) {
    self.transport = transport
    self.registration = registration
    self.options = options
    idleWatch = idleTimeout.map { IdleWatch($0, registration) }
  }

  /// The last reference was dropped, anywhere: the end has not been told yet, perhaps.
  deinit {
    guard let observation else { return }
    let outcome: Result<CloseReport, SocketError> =
      if state == .connecting {
        .failure(SocketError(.closed, operation: "connect"))
      } else {
        .success(report(.byUs, unsent: unsentBytes))
      }
    registration.reactor.submit { observation.ended(outcome) }
  }

  /// Says whose core this is, before anything else happens on the reactor.
  package func setOwner(_ owner: any QueuedByteStream) { self.owner = owner }

  // MARK: Events from the transport

  /// The stream is up: what was queued begins.
  package func open() {
    guard state == .connecting else { return }
    state = closing.isUnderWay ? .closing : .open
    if case .after(.pendingWrites) = closing { armCloseDeadline() }
    observation?.isUp()
    idleWatch?.start()
    reads.open()
    writes.open()
    for waiter in openWaiters.takeAll() { waiter.resume(.success(())) }
    pumpWrites()
    pumpReads()
  }

  /// There may be something to receive or room to send.
  package func transportIsReady() {
    if let layer = carriedLayer { return layer.carrierIsReady() }
    if !pumpLoneRead() { pumpReads() }
    if !writes.isEmpty { pumpWrites() }
  }

  /// Whether somebody waits for the peer's end.
  package var isEndAwaited: Bool { !peerFinishedWaiters.isEmpty }

  /// The peer finished; what it sent before may not have been received yet.
  package func peerFinished() {
    // A reset announces the end of everything, which is not the same.
    if peerIsFinished || brokenBy != nil { return }
    peerIsFinished = true
    for waiter in peerFinishedWaiters.takeAll() { waiter.resume(.success(())) }
    if !isPumpingReads { settle() }
  }

  /// The connection broke. Bytes that came before can still be received.
  package func transportBroke(_ error: SystemError) {
    transportBroke(SocketError(error, operation: "connection"))
  }

  /// The same, said in full.
  package func transportBroke(_ error: SocketError) {
    broke(error)
    if let layer = carriedLayer { return layer.carrierBroke(error) }
    pumpReads()
    pumpWrites()
  }

  func broke(_ error: SocketError) {
    if brokenBy != nil { return }
    if transport.hasFoundEnd { return writesBroke(error) }
    brokenBy = error
    let unsent = unsentBytes
    writes.refuse(error.during("write"), heldBack: transport.heldBackBytes)
    conclude(CloseReport.Reason(error), unsent: unsent)
    failFlushes(error)
  }

  /// The connection broke after the peer had said that it sends no more. Only writes fail; reads find the end.
  private func writesBroke(_ error: SocketError) {
    if lost == nil { lost = (error, unsentBytes) }
    writes.refuse(error.during("write"), heldBack: transport.heldBackBytes)
    failFlushes(error)
    pumpWrites()
  }

  /// Bytes will not come any more, because the connection broke: the descriptor has no use now.
  func endedBroken(_ error: SocketError) {
    broke(error)
    reads.end(.failed(brokenBy ?? error))
    idleWatch?.stop()
    transport.abort()
  }

  // MARK: Carrying out what the queues say

  /// The share of one direction in one turn of the reactor: a connection that always has data goes behind the others after
  /// that much. Failures are no share of anybody's: they move nothing.
  struct Share {
    var turn = 0
    var operations = 64
    var bytes = 262_144
    var isSpent: Bool { operations <= 0 || bytes <= 0 }

    /// Begins anew in another turn.
    mutating func renew(_ turn: Int) {
      if turn != self.turn { self = Share(turn: turn) }
    }
  }

  func pumpReads() {
    if isPumpingReads { return }
    isPumpingReads = true
    defer {
      isPumpingReads = false
      // A read that met a reset has taken the transport away: no event will come for the writes.
      if writes.isRefusing, !writes.isEmpty { pumpWrites() }
      settle()
    }
    readShare.renew(registration.turnNumber)
    while true {
      if readShare.isSpent, !reads.isRefusing, reads.count > 0 {
        if registration.askForTurn() { return }
        readShare = Share()
      }
      switch reads.step() {
      case .idle:
        return
      case .begin(let id, let read):
        begin(read: read, id)
      case .finish(let entry, let result):
        switch result {
        case .success(let outcome):
          readShare.operations -= outcome.cost
          finish(entry, outcome)
        case .failure(let error): finish(entry.tag, .failure(error))
        }
      case .receive(let id, let have, let wanted):
        if have == 0, transport.isReadable, reads.grantTurn(id) { continue }
        if !receive(wanted: wanted), !expireImmediateRead(id) { return }
      }
    }
  }

  /// What `pumpReads` does, at a stroke, where a single read of what there is waits for bytes, and they came: so it is
  /// nearly always. False if it is not so.
  private func pumpLoneRead() -> Bool {
    guard !isPumpingReads, reads.isWaitingForAny else { return false }
    readShare.renew(registration.turnNumber)
    if readShare.isSpent { return false }
    var arrived = ByteQueue()
    let result = transport.receive(into: &arrived, wanted: 1)
    guard case .bytes(let count) = result, count > 0, let entry = reads.finishAny(count) else {
      reads.giveBack(arrived)
      _ = note(received: result)
      return false
    }
    _ = note(received: result)
    readShare.operations -= 1
    finish(entry, .bytes(arrived.take(count)))
    settle()
    return true
  }

  /// Receives once for the first read; false when nothing can be received now.
  private func receive(wanted: Int) -> Bool {
    var buffer = reads.lendBuffer()
    let result = transport.receive(into: &buffer, wanted: wanted)
    reads.giveBack(buffer)
    return note(received: result)
  }

  private func note(received result: Transfer) -> Bool {
    switch result {
    case .bytes(0):
      receivedEnd()
    case .bytes(let count):
      moved(received: count)
      readShare.bytes -= count
      if readHasProgress { reportReadProgress() }
    case .wouldBlock:
      return false
    case .failed(let error):
      endedBroken(failure(error, "read"))
    }
    return true
  }

  func receivedEnd() {
    if let brokenBy {
      endedBroken(brokenBy)
    } else {
      reads.end(.endOfStream)
      peerFinished()
    }
  }

  func pumpWrites() {
    if isPumpingWrites { return }
    isPumpingWrites = true
    defer {
      isPumpingWrites = false
      settle()
    }
    writeShare.renew(registration.turnNumber)
    while true {
      if writeShare.isSpent, !writes.isRefusing {
        if registration.askForTurn() { return }
        writeShare = Share()
      }
      // What the transport took is done when it is sent.
      if transport.heldBackBytes > 0, writes.isUnderWay, !expireImmediateWrite() { return }
      switch writes.step() {
      case .idle:
        return
      case .begin(let id, let write):
        begin(write: write, id)
      case .finish(let tag, let result):
        guard let tag else { continue }
        switch result {
        case .success:
          writeShare.operations -= 1
          finish(tag, .success(.written))
        case .failure(let error): finish(tag, .failure(error))
        }
      case .acknowledge(let id, let flush):
        awaitAcknowledgement(id, flush)
      case .send:
        if !sendQueued(), !expireImmediateWrite() { return }
      case .sendFile(let file, let offset, let count):
        if !send(file, from: offset, count: count), !expireImmediateWrite() { return }
      case .pass(let bytes, let descriptor):
        if !pass(descriptor, with: bytes), !expireImmediateWrite() { return }
      case .shutDown:
        if let error = transport.finishWriting() { broke(SocketError(error, operation: "finishWriting")) }
        writes.finished()
      }
    }
  }

  /// Sends once; false when nothing can be sent now.
  private func sendQueued() -> Bool {
    let (pieces, offset) = writes.unsent(maximumPieces: Socket.maximumPieces, maximumBytes: 262_144)
    let result: Transfer
    if pieces.count == 1, let piece = pieces.first {
      result = transport.send(piece.span.extracting(offset..<piece.count))
    } else {
      result = transport.send(gathering: pieces, skipping: offset)
    }
    return note(sent: result)
  }

  func note(sent result: Transfer) -> Bool {
    switch result {
    case .bytes(let count):
      moved(sent: count)
      writeShare.bytes -= count
      writes.sent(count)
      disarmRest()
      if writeHasProgress { reportWriteProgress() }
    case .wouldBlock:
      return false
    case .failed(let error):
      broke(failure(error, "write"))
    }
    return true
  }

  /// What a transfer failed with.
  func failure(_ error: SystemError, _ operation: String) -> SocketError {
    transport.failure?.during(operation) ?? SocketError(error, operation: operation)
  }

  /// Looks after what depends on the queues having run dry.
  func settle() {
    if isQuiet { return }
    continueUpgrade()
    continueClosing()
    settleRest()
    let isNeeded = pendingHandles > 0 || !writes.isEmpty && !restIsLetGo || closing.isUnderWay
    if isNeeded {
      if keepAlive == nil { keepAlive = owner }
    } else {
      keepAlive = nil
    }
  }

  /// Nothing is under way that a queue's running dry could bring on: so it is after most steps.
  private var isQuiet: Bool {
    guard case .no = closing, keepAlive == nil, pendingHandles == 0, writes.isEmpty, upgrade == nil else {
      return false
    }
    return restDeadline == nil && !restIsLetGo && !(peerIsFinished && options.closesOnEndOfStream)
  }

  // MARK: Outcomes

  private func finish(_ entry: ReadQueue<Operation>.Entry, _ outcome: consuming ReadOutcome) {
    let operation = entry.tag
    // Held in a circle until `end`, which every such call comes to.
    if operation.isReusable { operation.entry = entry }
    finish(operation, .success(.read(outcome)))
  }

  func finish(_ operation: Operation, _ outcome: consuming Result<OperationOutcome, any Error>) {
    if operation.finish(registration, outcome) { pendingHandles -= 1 }
  }

  // MARK: Admission

  /// Puts a read in the queue and begins it if its turn has come.
  func admit(_ kind: ReadKind, _ operation: Operation) -> UInt64 {
    if operation.isEnqueued { pendingHandles += 1 }
    let id = reads.admit(kind, isEnqueued: operation.isEnqueued, operation)
    operation.armIfWithin(registration, StreamDeadline.read(id))
    pumpReads()
    return id
  }

  /// Begins a read of a call without a timeout.
  func begin(_ kind: ReadKind, _ place: Place) -> Operation {
    let (operation, waits) = admitReusable(kind)
    if waits { hasBegunPlainly() }
    if !waits || transport.isReadable {
      pumpReads()
    } else if restDeadline != nil || restIsLetGo {
      // Somebody waits again: the rest of what was given up keeps the connection.
      settle()
    }
    prepareToSuspend(operation, place)
    return operation
  }

  /// Puts a read of a call in the queue, of one that was over if there is one.
  ///
  /// - Returns: It, and whether all that it can do is wait for the first byte.
  func admitReusable(_ kind: ReadKind) -> (operation: Operation, waits: Bool) {
    guard let entry = spareRead.take() else {
      let operation = Operation(.call, timeout: nil, progress: nil, start: 0)
      operation.isReusable = true
      operation.id = reads.admit(kind, isEnqueued: false, operation)
      return (operation, false)
    }
    let operation = entry.tag
    let (id, waits) = reads.admit(again: entry, kind)
    operation.id = id
    operation.suspension?.reset()
    operation.called = 0
    return (operation, waits)
  }

  /// The first read has begun and has no end of its time and no progress; no step has said so.
  func hasBegunPlainly() {
    readIsImmediate = false
    readHasProgress = false
  }

  /// The outcome of a read that `begin` began. Not inlined, for what it needs would be kept in the frame of every
  /// suspended read. The operation is used again and must not be touched any more.
  @inline(never)
  func end(_ operation: Operation) throws -> ReadOutcome {
    let outcome = operation.outcome.take()
    if let entry = operation.entry.take() { spareRead = entry }
    guard case .read(let read)? = try outcome?.get() else { return .endOfStream }
    return read
  }

  /// Puts a write in the queue and begins it if its turn has come. `sent` bytes of it are gone already and not in the
  /// content.
  func admit(_ content: WriteQueue<Operation>.Content, alreadySent sent: Int, _ operation: Operation) -> UInt64 {
    if operation.isEnqueued { pendingHandles += 1 }
    let id = writes.admit(content, alreadySent: sent, operation)
    operation.armIfWithin(registration, StreamDeadline.write(id))
    pumpWrites()
    return id
  }

  /// The stream closes because the peer finished and everything was read: reads go on finding the end.
  var closesAtEnd = false

  /// Why no operation is taken any more, if so.
  var refusal: SocketError? {
    guard case .no = closing else { return endError }
    return upgrade == nil ? nil : SocketError(.upgraded, operation: "")
  }

  // MARK: Progress

  private func reportReadProgress() {
    guard let first = reads.first, case .exactly(let total, _) = first.kind else { return }
    first.tag.progress?(min(reads.buffer.count, total), total)
  }

  private func reportWriteProgress() {
    guard let first = writes.first else { return }
    first.tag?.progress?(first.sent, first.total)
  }

  /// Ends the queues with an error; nothing is moved any more.
  func refuseAll(reads readError: SocketError, writes writeError: SocketError) {
    reads.refuse(readError)
    writes.refuse(writeError, heldBack: transport.heldBackBytes)
    pumpReads()
    pumpWrites()
  }
}
