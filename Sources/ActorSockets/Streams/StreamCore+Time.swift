internal import EpollReactor

// Deadlines of operations: armed at the call or when the operation begins, extended or carried out when they come.

extension StreamCore {
  func begin(read: Operation, _ id: UInt64) {
    readHasProgress = read.progress != nil
    readIsImmediate = start(read, .read(id))
  }

  func begin(write: Operation?, _ id: UInt64) {
    writeHasProgress = write?.progress != nil
    writeIsImmediate = write.map { start($0, .write(id)) } ?? false
  }

  /// Starts an operation's time; whether it has none at all.
  private func start(_ operation: Operation, _ tag: StreamDeadline) -> Bool {
    let isImmediate = operation.begin(registration, tag)
    if isImmediate { transport.tryAnyway() }
    return isImmediate
  }

  /// Ends the first read if it has no time to wait; whether it did, so that what is behind it may run.
  func expireImmediateRead(_ id: UInt64) -> Bool {
    if !readIsImmediate { return false }
    readIsImmediate = false
    expireRead(id)
    return true
  }

  /// Ends the first write if it has no time to wait, likewise.
  func expireImmediateWrite() -> Bool {
    guard writeIsImmediate, let id = writes.first?.id else { return false }
    writeIsImmediate = false
    expireWrite(id)
    return true
  }

  /// A deadline has come.
  package func deadlineReached(_ deadline: StreamDeadline) {
    switch deadline {
    case .read(let id):
      expireRead(id)
      pumpReads()
    case .write(let id):
      expireWrite(id)
      pumpWrites()
    case .close:
      closeDeadline = nil
      terminate(SocketError(.closed, operation: ""), .timedOut)
    case .rest:
      letGoOfRest()
    case .idle:
      idleDeadlineReached()
    case .acknowledgement:
      checkAcknowledgements()
    }
  }

  private func expireRead(_ id: UInt64) {
    let done = reads.first?.id == id ? reads.buffer.count : 0
    if let read = reads.tag(of: id), read.extend(registration, StreamDeadline.read(id), done: done) { return }
    guard let entry = reads.remove(id) else { return }
    timeOut(entry.tag, "read", done)
  }

  private func expireWrite(_ id: UInt64) {
    if let flush = acknowledgementWait?.queue.tag(of: id) { return expire(flush: flush, id) }
    let done = writes.first?.id == id ? writes.first?.sent ?? 0 : 0
    if let write = writes.tag(of: id), write.extend(registration, StreamDeadline.write(id), done: done) { return }
    guard let (write, sent) = writes.remove(id) else { return }
    timeOut(write, "write", sent)
  }

  private func expire(flush: Operation, _ id: UInt64) {
    if flush.extend(registration, StreamDeadline.write(id), done: 0) { return }
    guard let flush = removeFlush(id) else { return }
    timeOut(flush, "flush", 0)
  }

  /// The time of an operation that has left its queue is over.
  func timeOut(_ operation: Operation, _ name: String, _ done: Int) {
    finish(operation, .failure(SocketError(.timedOut, operation: name, bytesTransferred: done)))
    guard options.closesOnTimeout else { return }
    if case .no = closing { closeReason = .timedOut }
    beginClose()
  }

  /// The rest of writes that were given up goes on in the background, and keeps the connection. But a peer that takes none
  /// of it must not keep a connection that nobody has any more: after the close timeout the rest does not keep it. Whoever
  /// has it still has it, and nothing is torn; if nobody does, it is reset.
  func settleRest() {
    guard writes.count > 0, writes.waiting == 0, reads.count == 0, pendingHandles == 0, case .no = closing,
      state == .open
    else { return disarmRest() }
    if restDeadline != nil || restIsLetGo { return }
    restDeadline = registration.arm(
      at: instant(registration.now, plus: options.closeTimeout.clampedNanoseconds), tag: StreamDeadline.rest.rawValue)
  }

  /// Bytes moved, or somebody waits for something again.
  func disarmRest() {
    if let deadline = restDeadline.take() { registration.disarm(deadline) }
    if restIsLetGo {
      restIsLetGo = false
      registration.resetsWhenDropped = false
    }
  }

  private func letGoOfRest() {
    restDeadline = nil
    restIsLetGo = true
    registration.resetsWhenDropped = true
    keepAlive = nil
  }
}
