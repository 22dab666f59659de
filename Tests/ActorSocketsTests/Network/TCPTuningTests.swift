import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

@Suite(.tags(.singleThread, .pure)) struct TCPTuningTests {
  private static let millisecond = MachinePath.millisecond

  @Test func `A window that was closed is announced when the program has taken everything, also with large segments`() {
    var (client, server) = (TCPMachine(), TCPMachine())
    client.setSegmentSize(65_483)
    server.setSegmentSize(65_483)
    client.connect(at: 0)
    for segment in client.effects.segments { server.accept(segment, at: 0) }
    client.effects = TCPMachine.Effects()
    exchange(&client, &server, at: 0)
    _ = client.send([UInt8](repeating: 1, count: 150_000).span, at: Self.millisecond)
    exchange(&client, &server, at: Self.millisecond)
    #expect(server.receiving.bytes.count == 65_536)
    server.programReceived(65_536, at: 2 * Self.millisecond)
    // The buffer has grown, and the window follows with what arrives.
    #expect(server.receiving.bufferSize > 1_000_000)
    #expect(server.effects.segments.map(\.window) == [65_536])
  }

  @Test func `Bytes within the window of the first segment are taken, also if the buffer was made smaller`() {
    var (client, server) = (TCPMachine(), TCPMachine())
    client.connect(at: 0)
    client.receiving.bufferSize = 10_000
    for segment in client.effects.segments { server.accept(segment, at: 0) }
    client.effects = TCPMachine.Effects()
    exchange(&client, &server, at: Self.millisecond)
    _ = server.send([UInt8](repeating: 1, count: 12_000).span, at: 2 * Self.millisecond)
    for segment in server.effects.segments { client.receive(segment, at: 2 * Self.millisecond) }
    #expect(client.receiving.bytes.count == 12_000)
  }
}
