package import EpollReactor

// The operations that wait, and for how long, as text: a simulation reports them when nothing is left to run.

extension EventHandler where Self: ByteStream {
  /// The contents of the queues, if a read or a write waits.
  package var waitingOperations: String? {
    let status = _core.status
    if status.queuedReads + status.queuedWrites == 0 { return nil }
    return (["\(self): \(status)"] + _core.pendingOperations.map(\.description)).joined(separator: "; ")
  }
}

extension EventHandler where Self: ServingListener {
  /// The calls of `accept` that wait.
  package var waitingOperations: String? {
    guard let first = waiters.first else { return nil }
    let age = Duration.nanoseconds(executor.reactor.now - first.since)
    return "a listener at \(localAddresses.map(\.description).joined(separator: ", ")): accept, for \(age)"
  }
}

extension UDPEndpoint {
  /// The first receive and the first send that wait, and the number of each.
  package var waitingOperations: String? {
    let first = [
      ("receives", receives.queue.count, receives.queue.firstID.flatMap(receives.queue.tag)),
      ("sends", sends.queue.count, sends.queue.firstID.flatMap(sends.queue.tag)),
    ]
    let now = executor.reactor.now
    let lines = first.compactMap { name, count, operation in
      operation.map { "\(count) \(name), the first for \(Duration.nanoseconds(now - $0.called))" }
    }
    return lines.isEmpty ? nil : "\(self): \(lines.joined(separator: "; "))"
  }
}
