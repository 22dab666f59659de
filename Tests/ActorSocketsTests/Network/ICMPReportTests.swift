import ActorSockets
import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

/// What reports mean: `icmp_err_convert` and `icmpv6_err_convert` of Linux.
@Suite(.tags(.pure)) struct ICMPReportTests {
  private static let ipv4 = Flow(local: .ipv4(.loopback, port: 1), remote: .ipv4(.loopback, port: 2))
  private static let ipv6 = Flow(local: .ipv6(.loopback, port: 1), remote: .ipv6(.loopback, port: 2))

  /// The type, the code, the error, whether that is final, and whether it ends a handshake.
  private func facts(_ kind: ICMPReport.Kind, _ flow: Flow) -> String {
    let report = ICMPReport(kind: kind, flow: flow)
    let words = (report.isFatal ? " final" : "") + (report.endsHandshake ? " handshake" : "")
    return "\(report.wire.type)/\(report.wire.code) \(report.errno)" + words
  }

  @Test func `Each report has the code of its RFC, and the error of Linux`() {
    #expect(facts(.portUnreachable, Self.ipv4) == "3/3 \(Errno.connectionRefused) final")
    #expect(facts(.rejected(.networkUnreachable), Self.ipv4) == "3/0 \(Errno.networkUnreachable) handshake")
    #expect(facts(.rejected(.hostUnreachable), Self.ipv4) == "3/1 \(Errno.hostUnreachable) handshake")
    #expect(facts(.rejected(.administrativelyProhibited), Self.ipv4) == "3/13 \(Errno.hostUnreachable) final")
    #expect(facts(.portUnreachable, Self.ipv6) == "1/4 \(Errno.connectionRefused) final handshake")
    #expect(facts(.rejected(.networkUnreachable), Self.ipv6) == "1/0 \(Errno.networkUnreachable)")
    #expect(facts(.rejected(.hostUnreachable), Self.ipv6) == "1/3 \(Errno.hostUnreachable)")
    #expect(
      facts(.rejected(.administrativelyProhibited), Self.ipv6) == "1/1 \(Errno.permissionDenied) final handshake")
  }

  private func fate(_ content: Packet.Content, to address: SocketAddress, loss: Double = 0) -> LinkState.Fate {
    var (state, random) = (LinkState(), SplitMix(seed: 1))
    var link = NetworkLink(latency: .fixed(.milliseconds(3)), loss: loss)
    link.rejection = .hostUnreachable
    let packet = Packet(source: Self.ipv4.local, destination: address, content: content)
    return state.send(packet, over: link, at: 5, &random)
  }

  @Test func `A packet is rejected when it would arrive, unless it is lost, for several hosts, or a report itself`() {
    let datagram = Packet.Content.datagram(UDPDatagram(bytes: [1]))
    let rejected = fate(datagram, to: Self.ipv4.remote)
    #expect(rejected.arrivals.isEmpty && rejected.report?.arrival == 3_000_005)
    #expect(rejected.report?.content.flow == Self.ipv4 && rejected.report?.content.sequence == nil)
    let segment = fate(.segment(Segment(sequence: 9)), to: Self.ipv4.remote)
    #expect(segment.arrivals.isEmpty && segment.report?.content.sequence == 9)
    for silent in [
      fate(datagram, to: Self.ipv4.remote, loss: 1), fate(datagram, to: .ipv4(IPv4Address(rawValue: .max), port: 2)),
      fate(.report(ICMPReport(kind: .portUnreachable, flow: Self.ipv4)), to: Self.ipv4.remote),
    ] { #expect(silent.arrivals.isEmpty && silent.report == nil) }
  }

  private func machine(_ state: TCPMachine.State, sequence: Int) -> TCPMachine {
    var machine = TCPMachine()
    machine.state = state
    machine.sending = TCPSending(unacknowledged: 10, next: 20)
    machine.rejected(Errno.hostUnreachable, sequence: sequence)
    return machine
  }

  @Test func `A connection that is being opened fails, and others remember reports about what is on its way`() {
    for state in [TCPMachine.State.synSent, .synReceived] {
      let machine = machine(state, sequence: 10)
      #expect(machine.state == .closed && machine.error == Errno.hostUnreachable)
    }
    for state in [TCPMachine.State.established, .finWait1, .finWait2, .closeWait, .lastAck, .closing] {
      for sequence in [10, 20] {
        let machine = machine(state, sequence: sequence)
        #expect(machine.state == state && machine.error == 0 && machine.softError == Errno.hostUnreachable)
      }
    }
    for sequence in [9, 21] {
      #expect(machine(.established, sequence: sequence).softError == 0)
      #expect(machine(.synSent, sequence: sequence).state == .synSent)
    }
  }

  @Test func `An acknowledgement ends what was reported`() {
    var machine = machine(.established, sequence: 10)
    machine.receive(Segment(sequence: 0, acknowledged: 9, window: 100), at: 1)
    #expect(machine.softError != 0)
    machine.receive(Segment(sequence: 0, acknowledged: 10, window: 100), at: 1)
    #expect(machine.softError == 0)
  }
}
