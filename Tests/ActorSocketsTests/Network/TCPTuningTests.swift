import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

@Suite(.tags(.singleThread, .pure)) struct TCPTuningTests {
  private static let millisecond = MachinePath.millisecond

  /// Sends small requests with pauses between them, and then a lot. Returns how long that takes.
  private func transfer(_ count: Int, afterPausesOf pause: Int64, requests: Int) -> Int64 {
    var path = MachinePath(delay: 50)
    path.connect()
    for _ in 0..<requests {
      path.run(until: path.now + pause * Self.millisecond)
      path.send(100)
    }
    path.run(until: path.now + pause * Self.millisecond)
    let start = path.now
    path.send(count)
    let isDone = path.run { $0.taken == 100 * requests + count }
    #expect(isDone, "\(path.taken) bytes have arrived")
    return path.now - start
  }

  @Test(arguments: [0, 1, 5])
  func `Pauses are not taken for long round trips, so the receive window grows as without them`(requests: Int) {
    let time = transfer(10_000_000, afterPausesOf: 20_000, requests: requests)
    #expect(time < 1_500 * Self.millisecond)
  }

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

  @Test func `Any number of bytes may be taken at one time`() {
    var tuning = ReceiveTuning()
    let segment = Segment(sequence: 1, bytes: [UInt8](repeating: 1, count: 1_448), echo: 0)
    tuning.arrived(segment, size: ReceiveTuning.initialSize, full: 536, isEmpty: true, at: Self.millisecond)
    var size = 0
    for _ in 0..<5_000 { size = tuning.programTook(1_000_000, early: 0, at: 0) ?? size }
    size = tuning.programTook(1, early: 0, at: 2 * Self.millisecond) ?? size
    #expect(size == ReceiveTuning.largestSize)
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

  @Test func `The sizes of buffers are those that Linux reports`() {
    let options = SocketOptions()
    #expect(Int32(kernelBytes: options.value(.sendBuffer)) == 87_040)
    #expect(Int32(kernelBytes: options.value(.receiveBuffer)) == 131_072)
  }
}
