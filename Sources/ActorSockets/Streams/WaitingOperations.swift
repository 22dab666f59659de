package import EpollReactor

// The operations that wait, and for how long, as text: a simulation reports them when nothing is left to run.

extension EventHandler where Self: ByteStream {
  package var waitingOperations: String? {
    let status = _core.status
    if status.queuedReads + status.queuedWrites == 0 { return nil }
    return (["\(self): \(status)"] + _core.pendingOperations.map(\.description)).joined(separator: "; ")
  }
}
