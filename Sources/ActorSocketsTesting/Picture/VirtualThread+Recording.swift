// What a simulation tells the record of its run. Without an observer, which is the rule, nothing is made and nothing is kept.

internal import EpollReactor
internal import SocketSystem

extension VirtualThread {
  var isRecorded: Bool { trace.observer != nil }

  /// For the record only. The end of the simulation is left out.
  func happened(_ content: @autoclosure () -> RunEvent.Content, on host: Int? = nil) {
    guard let observer = trace.observer, !hasEnded else { return }
    observer(RunEvent(time: elapsed, host: host ?? currentOwner.host, content: content().cut))
  }

  /// For the first failure of the run, also records what waits.
  func failed(_ reason: @autoclosure () -> String) {
    if !isRecorded || hasEnded { return }
    happened(.failure(reason()))
    if !trace.hasFailure { happened(.waiting(waiting)) }
    trace.hasFailure = true
  }

  func happened(_ packet: Packet, _ journey: SimulatedNetwork.Journey) {
    if isRecorded { happened(.packet(PacketView(packet, journey, since: Self.start)), on: journey.from) }
  }

  func happenedLink(from: Int, to: Int) {
    if isRecorded { happened(.link(network.links.view(from: from, to: to))) }
  }

  /// Why a simulation ended before its program did.
  func reason(of stop: SimulationError.Code) -> String {
    switch stop {
    case .livelock: "\(Self.mostWithoutTime) jobs ran without moving time"
    case .timeLimit: "the next timer is behind the time limit"
    default: (["the body waits, and nothing is left to run"] + helpers).joined(separator: "; ")
    }
  }
}

extension NetworkLinks {
  fileprivate func view(from: Int, to: Int) -> LinkView {
    let link = disturbedLink(from: from, to: to)
    return LinkView(from: from, to: to, text: link.text(besides: defaultLink), isCut: link.isCut)
  }
}

extension PacketView {
  /// `start` is the time of the network when the simulation begins.
  init(_ packet: Packet, _ journey: SimulatedNetwork.Journey, since start: Int64) {
    self.init(
      from: journey.from, to: journey.to, kind: 0, sourcePort: Int(packet.source.port ?? 0),
      destinationPort: Int(packet.destination.port ?? 0), count: 0, arrivals: journey.arrivals.map { $0 - start },
      loss: journey.loss)
    switch packet.content {
    case .segment(let segment):
      kind = SimulatedNetwork.PacketEvent.Kind.tcp.rawValue
      flags = (segment.isFin ? 1 : 0) | (segment.isSyn ? 2 : 0) | (segment.isReset ? 4 : 0)
      sequence = segment.sequence
      acknowledged = segment.acknowledged
      isRepeated = segment.isRepeated
      count = segment.bytes.count
      bytes = Array(segment.bytes.prefix(Self.keptBytes))
    case .datagram(let datagram):
      kind = SimulatedNetwork.PacketEvent.Kind.udp.rawValue
      count = datagram.bytes.count
      bytes = Array(datagram.bytes.prefix(Self.keptBytes))
    case .report(let report):
      kind = SimulatedNetwork.PacketEvent.Kind.icmp.rawValue
      count = Int(report.errno)
    }
  }
}
