internal import EpollReactor
internal import SocketSystem

extension StreamCore {
  /// Returns `false` if nothing can be sent now.
  func send(_ file: FileSource, from offset: Int, count: Int) -> Bool {
    // At most one budget at a time, because reading the file may block.
    switch transport.send(file: file, from: offset, count: min(count, writes.budget.bytes)) {
    case .transfer(let result): return note(sent: result)
    case .unreadable(let error): fileFailed(error)
    }
    return true
  }

  private func fileFailed(_ cause: SystemError?) {
    let error =
      cause.map { SocketError($0, operation: "sendFile") }
      ?? SocketError(.system, operation: "sendFile", detail: "the file was shortened while it was being sent")
    // If no byte of the file is sent, only this write fails. Otherwise the stream is broken.
    if let first = writes.queue.first, first.sent == 0, let (write, _) = writes.queue.remove(first.id) {
      return finish(write, .failure(error))
    }
    // The call learns of the file, and not only that the stream is broken.
    if let first = writes.queue.first, let write = writes.queue.abandon(first.id) {
      var failure = error
      failure.bytesTransferred = first.sent
      finish(write, .failure(failure))
    }
    terminate(error, .error(error))
  }
}
