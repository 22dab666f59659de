internal import EpollReactor

// Sends that go together, before the loop sleeps: those of enqueued writes, and those of writes that return when their bytes are
// buffered (`WriteCompletion.buffered`). So the code and the data of sends stay in the processor's caches, and small writes of one
// iteration are one send.
//
// Invariants:
// - What is gathered is sent before the loop sleeps, or waits in the queue for an event or a turn.
// - Later operations find the bytes in the queue before them. Others send the bytes first: `abort`, the end of the reactor, the end of an
//   idle stream, the loan of the descriptor, a change of its options.
// - The loop keeps the stream until then.
// - A write with a timeout is not gathered, because its time could pass before the loop tries to send it.

extension StreamCore: GatheredSender {
  /// Whether the call of a write of `count` bytes returns when `buffer` has taken the bytes. Otherwise it is carried out as others.
  @inline(__always)
  func buffersWrite(of count: Int, _ timeout: Timeout?) -> Bool {
    writes.queue.buffersWrites && maySendAtOnce(count, timeout) && writes.queue.canBuffer(count)
  }

  func buffer(_ bytes: [UInt8], of owner: any ByteStream) throws {
    try CurrentTask.checkCancellation()
    writeLeavesElements()
    writes.budget.use(operations: 1)
    if writes.queue.buffered.isEmpty { registration.sendTogether(self, keeping: owner) }
    writes.queue.buffer(bytes)
  }

  /// A large write is sent at once, while its bytes are in the processor's caches.
  func admitGathered(_ pieces: [[UInt8]], _ count: Int, _ write: Operation, of owner: any ByteStream) -> UInt64 {
    let isFirst = writes.queue.isEmpty
    let id = admitUnsent(.pieces(pieces), alreadySent: 0, write)
    sendGathering(count, isFirst: isFirst, hasTimeout: write.timeout != nil, of: owner)
    return id
  }

  /// `isFirst`: no write waited before the one that was admitted, of `count` bytes.
  @inline(__always)
  func sendGathering(_ count: Int, isFirst: Bool, hasTimeout: Bool, of owner: any ByteStream) {
    if hasTimeout || count > WriteQueue<Operation>.mostBuffered {
      pumpWrites()
    } else if isFirst {
      registration.sendTogether(self, keeping: owner)
    } else {
      recheckQueues()
    }
  }

  /// Sends what is buffered, or what was enqueued.
  package func sendGathered() {
    if writes.queue.isEmpty { return }
    // The transport may call other code, which must not find an access to the queue under way.
    let bytes = writes.queue.buffered
    if bytes.isEmpty { return pumpWrites() }
    // As in a pump: what the transport calls, such as an observer, sends nothing meanwhile.
    if !writes.beginPump(registration.tick) { return }
    let isDone = send(buffered: bytes.span)
    writes.endPump()
    if isDone { recheckQueues() } else { pumpWrites() }
  }

  /// Returns whether nothing is left to do.
  private func send(buffered bytes: Span<UInt8>) -> Bool {
    switch transport.send(bytes) {
    case .bytes(let count):
      moved(sent: count)
      writes.budget.use(bytes: count)
      let isDone = count == bytes.count && unsentCiphertext == 0
      writes.queue.sentBuffered(count, isDone: isDone)
      return isDone
    case .wouldBlock: return false
    case .failed(let error):
      broke(failure(error, "write"))
      return false
    }
  }

  /// Sends what is only gathered, here and in the layer above, also if the budget of this iteration is used up. Other writes wait for an
  /// event or a turn.
  package func sendGatheredNow() {
    carriedLayer?.sendGathered()
    if writes.queue.isUnderWay || writes.queue.isEmpty { return }
    writes.renewBudget()
    sendGathered()
  }
}
