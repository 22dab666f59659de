import SocketSystem
import Testing

@testable import ActorSockets

struct SendDriver {
  var queue = SendQueue<Int>()
  /// The first byte of each datagram that was sent.
  var sent: [UInt8] = []
  var connects: [[SocketAddress]] = []
  var outcomes: [Int: String] = [:]

  static let error = SocketError(.unreachable, operation: "send")

  var full: Set<SocketAddress?> = []
  var isAnnounced = false
  var now: Int64 = 0
  var refusals = 0
  var dropped: [UInt8] = []

  mutating func found(_ address: SocketAddress, for id: UInt64) {
    guard var datagram = queue.datagram(ofName: id) else { return queue.resolve(id, .success([address])) }
    datagram.remoteAddress = address
    queue.resolve(id, to: datagram)
  }

  private func hasRoom(for datagram: Datagram) -> Bool { !full.contains(datagram.remoteAddress ?? queue.peer) }

  /// Runs until the queue has nothing to do or `limit` datagrams are sent, at most `batch` at a time. Those in `bad` cannot be sent.
  mutating func run(batch: Int = .max, limit: Int = .max, bad: Set<UInt8> = []) {
    var left = limit
    let mostRefusals = refusals + 10_000
    while true {
      switch queue.step() {
      case .idle: return
      case .connect(let addresses):
        connects.append(addresses)
        if let peer = addresses.first { queue.peer = peer }
        queue.connected(addresses.isEmpty ? .failure(Self.error) : .success(()))
      case .finish(let tag, let result):
        #expect(outcomes[tag] == nil, "two outcomes")
        switch result {
        case .success: outcomes[tag] = "sent"
        case .failure(let error as DatagramBatchError):
          outcomes[tag] = "\(error.sent) sent, failed \(error.failures.map(\.index))"
        case .failure(let error): outcomes[tag] = "\((error as? SocketError)?.code ?? .system)"
        }
      case .park: queue.park(atMost: batch).dropped.map { dropped.append($0.bytes[0]) }
      case .send:
        var taken: [UInt8] = []
        for datagram in queue.unsent(atMost: min(batch, left)) {
          guard let first = datagram.bytes.first, !bad.contains(first), hasRoom(for: datagram) else { break }
          taken.append(first)
        }
        if taken.isEmpty, let (first, _) = queue.first {
          if !hasRoom(for: first) {
            queue.full(first.remoteAddress, at: now, isAnnounced: isAnnounced)
            refusals += 1
            if refusals < mostRefusals { continue }
            Issue.record("a destination without room is tried again and again")
            return
          }
          queue.failed(Self.error)
          left -= 1
        }
        if !taken.isEmpty { queue.sent(taken.count) }
        sent += taken
        left -= taken.count
        if left <= 0 { return }
      }
    }
  }
}

func datagrams(_ numbers: [UInt8]) -> [Datagram] { numbers.map { Datagram([$0]) } }
