internal import EpollReactor

// Deadlines of operations: CallTimer.swift says when they are armed, and what happens when they are reached.

extension StreamCore {
  func begin(read: Operation, _ id: UInt64) {
    reads.notesProgress = read.progress != nil
    reads.isImmediate = read.timeout.map { start(read, DeadlineTag(.read, id), $0) } ?? false
    // Bytes may be in the kernel although epoll has not reported them yet. Then the read is not idle, and its deadline not missed.
    if reads.queue.isDraining || read.isPastDeadline(registration) { transport.forceAttempt() }
  }

  func begin(write: Operation?, _ id: UInt64) {
    writes.notesProgress = write?.progress != nil
    writes.isImmediate = write.map { start($0, DeadlineTag(.write, id)) } ?? false
  }

  /// Returns whether the timeout is zero.
  private func start(_ operation: Operation, _ tag: DeadlineTag) -> Bool {
    let isImmediate = operation.begin(registration, tag)
    if isImmediate { transport.forceAttempt() }
    return isImmediate
  }

  /// As of every operation, but the time may start with the first byte.
  private func start(_ read: Operation, _ tag: DeadlineTag, _ timeout: Timeout) -> Bool {
    if timeout.start == .firstByte {
      reads.notesProgress = true
      if reads.queue.buffer.isEmpty { return false }
    }
    return start(read, tag)
  }

  /// A byte for the first read has arrived.
  func firstByteArrived(_ read: Operation, _ id: UInt64) {
    if !read.firstByteArrived(registration, DeadlineTag(.read, id)) { return }
    reads.isImmediate = true
    transport.forceAttempt()
  }

  /// See `ByteStream.takeBuffered()`.
  func takeBuffered() -> [UInt8] {
    let bytes = reads.queue.takeBuffered()
    if !bytes.isEmpty, reads.queue.first?.tag.bytesWereTaken(registration) == true { reads.isImmediate = false }
    recheckQueues()
    return bytes
  }

  /// Times the first operation out if it must not wait. Returns whether it did; then the operations after it may begin.
  func expireImmediateRead() -> Bool { reads.takeImmediate().map(expireRead) != nil }
  func expireImmediateWrite() -> Bool { writes.takeImmediate().map(expireWrite) != nil }

  /// Times the first write out if its deadline has passed and no byte of it was sent. Deadlines are reported after the events of an
  /// iteration, so it would be sent otherwise. Returns whether it timed out: then the writes after it may begin.
  func expireOverdueWrite() -> Bool {
    guard let first = writes.queue.first, first.sent == 0, let write = first.tag, write.mustNotBegin(registration)
    else {
      return false
    }
    if case .question(let exchange) = write.waiter, let read = exchange.overdueRead(registration) {
      expireRead(read)
    } else {
      expireWrite(first.id)
    }
    // The timeout's closure may have given it more time.
    return writes.queue.first !== first
  }

  package func deadlineReached(_ tag: DeadlineTag) {
    switch tag.kind {
    case .read:
      expireRead(tag.id)
      pumpReads()
    case .readEnd:
      // It took nothing, so the reads after it begin where it would have begun.
      if let entry = reads.queue.withdraw(tag.id) { finish(entry.tag, .success(.read(.endOfStream))) }
      pumpReads()
    case .write:
      expireWrite(tag.id)
      pumpWrites()
    case .close:
      self.deadline = nil
      terminate(SocketError(.closed, operation: ""), .timedOut)
    case .tail:
      self.deadline = nil
      carryOut(lifecycle.tailDeadlineReached())
    case .idle:
      idleDeadlineReached()
    case .acknowledgement:
      checkAcknowledgements()
    case .grace:
      graceIsOver()
    default: tag.isUnexpected(by: Self.self)
    }
  }

  private func expireRead(_ id: UInt64) {
    let done = reads.queue.first?.id == id ? reads.queue.buffer.count : 0
    if let read = reads.queue.tag(of: id), read.extend(registration, DeadlineTag(.read, id), done: done) { return }
    guard let entry = removeExpiredRead(id) else { return }
    timeOut(entry.tag, "read", done)
  }

  private func expireWrite(_ id: UInt64) {
    if let flush = acknowledgementWait?.queue.tag(of: id) { return expire(flush: flush, id) }
    let done = writes.queue.first?.id == id ? writes.queue.first?.sent ?? 0 : 0
    if let write = writes.queue.tag(of: id), write.extend(registration, DeadlineTag(.write, id), done: done) { return }
    guard let (write, sent) = writes.queue.remove(id) else { return }
    timeOut(write, "write", sent)
  }

  private func expire(flush: Operation, _ id: UInt64) {
    if flush.extend(registration, DeadlineTag(.write, id), done: 0) { return }
    guard let flush = removeFlush(id) else { return }
    timeOut(flush, "flush", 0)
  }

  /// The operation has left its queue.
  func timeOut(_ operation: Operation, _ name: String, _ done: Int) {
    finish(
      operation,
      .failure(operation.timedOut(name, at: registration.reactor.now, peer: owner?.remoteAddress, done: done)))
    guard options.closesOnTimeout else { return }
    lifecycle.operationTimedOut()
    beginClose()
  }
}
