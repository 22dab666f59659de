package import EpollReactor

// What a simulation reports when nothing is left to run: the operations that wait.

extension EventHandler where Self: ByteStream {
  /// The contents of the queues, if a read or a write waits.
  package var waitingOperations: String? {
    let status = _core.status
    return status.queuedReads + status.queuedWrites == 0 ? nil : "\(self): \(status)"
  }
}

extension EventHandler where Self: ServingListener {
  /// That a call of `accept` waits, if one does.
  package var waitingOperations: String? {
    if waiters.isEmpty { return nil }
    return "a listener at \(localAddresses.map(\.description).joined(separator: ", ")): accept"
  }
}
