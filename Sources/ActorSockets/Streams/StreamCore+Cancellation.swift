// How what was queued is taken back: by cancelling a task, or a handle.
//
// Whoever comes first, the outcome or the cancellation, takes the operation out of its queue; the other finds nothing there. Both are
// on the reactor's thread.

extension StreamCore {
  /// The task that awaits a call was cancelled.
  func cancel(_ call: QueuedCall) {
    switch call {
    case .read(let id): cancelRead(id)
    case .write(let id): cancelWrite(id)
    }
  }

  /// The task that awaits a read was cancelled, or its handle.
  func cancelRead(_ id: UInt64) {
    guard let entry = reads.queue.remove(id) else { return }
    finish(entry.tag, .failure(CancellationError()))
    pumpReads()
  }

  /// The task that awaits a write was cancelled, or its handle.
  func cancelWrite(_ id: UInt64) {
    guard let write = writes.queue.remove(id)?.tag ?? removeFlush(id) else { return }
    finish(write, .failure(CancellationError()))
    pumpWrites()
  }

  /// The task that awaits a write was cancelled, and nobody else has its bytes: they stay.
  func abandonWrite(_ id: UInt64) {
    guard let write = writes.queue.abandon(id) else { return }
    finish(write, .failure(CancellationError()))
    pumpWrites()
  }
}

/// A call that waits in one of the queues.
enum QueuedCall {
  case read(UInt64)
  case write(UInt64)
}
