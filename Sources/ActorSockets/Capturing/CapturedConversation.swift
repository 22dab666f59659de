internal import SocketSystem

// The packets of one connection, as a network without loss would show them.
//
//    waiting ──begin()──▶ open ──both sides finished, or reset──▶ ended
//
// - `begin` makes the three packets of a TCP handshake. Before it and after the end, nothing is recorded.
// - Each side counts its bytes from its initial sequence number, modulo 2^32. A SYN and a FIN count as one byte.
// - Every packet except the first SYN acknowledges everything that the other side has sent before.
// - A side that has finished sends nothing more. It may still be reset.
// - Bytes that do not fit into one packet are split. Only the last packet has the flag PSH.

struct CapturedConversation {
  enum Side {
    case local, remote

    fileprivate var other: Side { self == .local ? .remote : .local }
  }

  struct Packet {
    let sender: Side
    let bytes: [UInt8]
  }

  private enum Phase {
    case waiting, open, ended
  }

  private struct State {
    var end: CapturedEnd
    /// The sequence number of the next byte.
    var next: UInt32
    var hasFinished = false
  }

  private var phase = Phase.waiting
  private var local: State
  private var remote: State
  private let isAccepted: Bool
  private let largestPayload: Int

  var hasEnded: Bool { phase == .ended }

  /// Both ends are of the same address family. `sequence` holds the initial sequence numbers.
  init(local: CapturedEnd, remote: CapturedEnd, isAccepted: Bool, sequence: (local: UInt32, remote: UInt32)) {
    self.local = State(end: local, next: sequence.local)
    self.remote = State(end: remote, next: sequence.remote)
    self.isAccepted = isAccepted
    largestPayload = CapturedPacket.largestPayload(addressLength: local.address.count)
  }

  // MARK: Events

  mutating func begin() -> [Packet] {
    guard phase == .waiting else { return [] }
    phase = .open
    let client: Side = isAccepted ? .remote : .local
    return [
      packet(from: client, .synchronize), packet(from: client.other, [.synchronize, .acknowledge]),
      packet(from: client, .acknowledge),
    ]
  }

  mutating func sent(_ bytes: Span<UInt8>, by side: Side) -> [Packet] {
    guard phase == .open, !self[side].hasFinished else { return [] }
    var packets: [Packet] = []
    var start = 0
    while start < bytes.count {
      let end = min(start + largestPayload, bytes.count)
      let isLast = end == bytes.count
      packets.append(
        packet(from: side, isLast ? [.push, .acknowledge] : .acknowledge, bytes.extracting(start..<end)))
      start = end
    }
    return packets
  }

  mutating func finished(by side: Side) -> [Packet] {
    guard phase == .open, !self[side].hasFinished else { return [] }
    let packet = packet(from: side, [.finish, .acknowledge])
    self[side].hasFinished = true
    if self[side.other].hasFinished { phase = .ended }
    return [packet]
  }

  mutating func reset(by side: Side) -> [Packet] {
    guard phase == .open else { return [] }
    phase = .ended
    return [packet(from: side, [.reset, .acknowledge])]
  }

  // MARK: Packets

  private subscript(side: Side) -> State {
    get { side == .local ? local : remote }
    set { if side == .local { local = newValue } else { remote = newValue } }
  }

  private mutating func packet(from side: Side, _ flags: CapturedPacket.Flags) -> Packet {
    let nothing: [UInt8] = []
    return packet(from: side, flags, nothing.span)
  }

  private mutating func packet(from side: Side, _ flags: CapturedPacket.Flags, _ payload: Span<UInt8>) -> Packet {
    let packet = CapturedPacket(
      source: self[side].end, destination: self[side.other].end, sequence: self[side].next,
      acknowledgement: self[side.other].next, flags: flags)
    let counts = flags.contains(.synchronize) || flags.contains(.finish)
    self[side].next &+= UInt32(payload.count) + (counts ? 1 : 0)
    return Packet(sender: side, bytes: packet.encoded(payload))
  }
}
