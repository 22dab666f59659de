import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

/// The contents and the number of segments.
@Suite(.tags(.singleThread, .pure)) struct TCPSegmentTests {
  private static let second = TCPMachine.second

  private func connected() -> (TCPMachine, TCPMachine) {
    var (client, server) = (TCPMachine(), TCPMachine())
    client.connect(at: 0)
    for segment in client.effects.segments { server.accept(segment, at: 0) }
    client.effects = TCPMachine.Effects()
    exchange(&client, &server, at: 1_000_000)
    return (client, server)
  }

  private func take(_ machine: inout TCPMachine) -> [Segment] {
    defer { machine.effects = TCPMachine.Effects() }
    return machine.effects.segments
  }

  private func send(_ count: Int, from machine: inout TCPMachine) -> [Segment] {
    _ = machine.send([UInt8](repeating: 1, count: count).span, at: Self.second)
    return take(&machine)
  }

  @Test func `No segment is larger than a packet, also if it reports what has arrived after a gap`() {
    var (client, server) = connected()
    for segment in send(3 * 1_448, from: &client).dropFirst() { server.receive(segment, at: Self.second) }
    let reports = take(&server)
    #expect(reports.last?.blocks == [1_449..<4_345])
    let full = send(1_448, from: &server)
    #expect(full.map { $0.headerSize + $0.bytes.count } == [32 + 1_448])
    // There is room for one block of eight bytes, and four bytes more.
    let almostFull = send(1_436, from: &server)
    #expect(almostFull.map { $0.headerSize + $0.bytes.count } == [32 + 1_448])
    #expect(almostFull.first?.blocks == [1_449..<4_345])
  }

  @Test func `When both ends finish at the same time, each end is acknowledged once`() {
    var (client, server) = connected()
    client.finish(at: Self.second)
    server.finish(at: Self.second)
    let ends = (take(&client), take(&server))
    for segment in ends.0 { server.receive(segment, at: Self.second) }
    for segment in ends.1 { client.receive(segment, at: Self.second) }
    let answers = (take(&client), take(&server))
    #expect(answers.0.count == 1 && answers.1.count == 1)
    #expect(client.acknowledging.timer == nil && server.acknowledging.timer == nil)
    for segment in answers.0 { server.receive(segment, at: Self.second) }
    for segment in answers.1 { client.receive(segment, at: Self.second) }
    #expect(client.state == .timeWait && server.state == .timeWait)
  }
}
