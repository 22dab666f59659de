internal import SocketSystem

// Cancels queued operations, because a task or a handle was cancelled.
//
// The outcome or the cancellation takes the operation out of its queue, whichever is first. The other finds nothing there. Both
// run on the reactor's thread.

extension StreamCore {
  func cancel(_ call: QueuedCall) {
    switch call {
    case .read(let id): cancelRead(id)
    case .write(let id): cancelWrite(id)
    }
  }

  func cancelRead(_ id: UInt64) {
    guard let entry = reads.queue.remove(id) else { return }
    finish(entry.tag, .failure(CancellationError()))
    pumpReads()
  }

  func cancelWrite(_ id: UInt64) {
    guard let write = writes.queue.remove(id)?.tag ?? removeFlush(id) else { return }
    finish(write, .failure(CancellationError()))
    pumpWrites()
  }

  /// Only the write has these bytes, so it stays in the queue.
  func abandonWrite(_ id: UInt64) {
    guard let write = writes.queue.abandon(id) else { return }
    finish(write, .failure(CancellationError()))
    pumpWrites()
  }
}

// The reads and writes of a handler task, and its wait for the handshake, install no cancellation handler: the server that cancels the
// task aborts the connection right after that.

extension StreamCore {
  /// Called before a call of a handler task suspends. The call ends now if the task was cancelled before.
  func handlerTaskWaits(for call: QueuedCall) {
    if CurrentTask.isCancelled { cancel(call) }
  }

  func outcomeOfCall(_ outcome: consuming Result<OperationOutcome, any Error>?) throws -> OperationOutcome? {
    switch outcome {
    case .success(let outcome): return outcome
    case .failure(let error): throw errorOfCall(error)
    case nil: return nil
    }
  }

  /// The error that a call throws for an error of the stream. It is `CancellationError` if the stream was closed, and the handler task
  /// makes the call after it was cancelled.
  func errorOfCall(_ error: any Error) -> any Error {
    guard let closed = error as? SocketError, closed.code == .closed, CurrentTask.isCancelled,
      owner?.executor.isCalledByHandlerTask == true
    else { return error }
    return CancellationError()
  }
}

enum QueuedCall {
  case read(UInt64)
  case write(UInt64)
}
