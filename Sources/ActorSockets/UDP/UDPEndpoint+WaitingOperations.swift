internal import EpollReactor
internal import SocketSystem

extension UDPEndpoint {
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
