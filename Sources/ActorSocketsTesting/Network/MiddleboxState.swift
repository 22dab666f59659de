// What a middlebox knows of the connections through it: a pure state machine.
//
// Invariants:
// - A connection is known from its first SYN on, until a reset passes, or until nothing of it has passed for the idle time.
// - A packet that the link loses does not reach the middlebox: the caller does not show it.

internal import SocketSystem

struct MiddleboxState {
  enum Verdict {
    case pass, drop, reset
  }

  let middlebox: Middlebox
  /// When a packet of the connection last passed. The ends are those of the connection's first packet.
  private var lastSeen: [Flow: Int64] = [:]
  /// With this many connections, the idle ones are removed before another is added.
  private var limit = 1_024

  init(_ middlebox: Middlebox) { self.middlebox = middlebox }

  mutating func verdict(on packet: Packet, at now: Int64) -> Verdict {
    guard case .segment(let segment) = packet.content else { return .pass }
    switch middlebox.kind {
    case .dropsData: return segment.bytes.isEmpty && !segment.isFin ? .pass : .drop
    case .forgetsIdle(let idle, let unknown):
      let flow = known(packet)
      if let last = lastSeen[flow], now - last <= idle {
        lastSeen[flow] = segment.isReset ? nil : now
      } else if segment.isSyn, segment.acknowledged == nil {
        begins(flow, at: now, idle)
      } else {
        lastSeen[flow] = nil
        return segment.isReset || unknown == .drop ? .drop : .reset
      }
      return .pass
    }
  }

  /// The ends are in the order in which the connection is known.
  private func known(_ packet: Packet) -> Flow {
    let answered = Flow(local: packet.destination, remote: packet.source)
    return lastSeen[answered] == nil ? Flow(local: packet.source, remote: packet.destination) : answered
  }

  private mutating func begins(_ flow: Flow, at now: Int64, _ idle: Int64) {
    if lastSeen.count >= limit {
      lastSeen = lastSeen.filter { now - $0.value <= idle }
      limit = max(1_024, 2 * lastSeen.count)
    }
    lastSeen[flow] = now
  }
}

extension Packet {
  /// The packet that resets the end of the connection that has sent `segment`.
  func reset(_ segment: Segment) -> Packet {
    let reset = Segment(isReset: true, sequence: segment.acknowledged ?? 0, acknowledged: segment.end)
    return Packet(source: destination, destination: source, content: .segment(reset))
  }
}
