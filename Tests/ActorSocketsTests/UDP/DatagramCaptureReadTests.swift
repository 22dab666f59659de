import ActorSockets
import Foundation
import TestSupport
import Testing

/// Captures of endpoints, read by another program.
@Suite(.endsInTime, .tags(.foundation)) struct DatagramCaptureReadTests {
  private let folder = try? Folder()

  private func path() throws -> String { try #require(folder).file("capture").path }

  @Test(.needs(.tshark), arguments: DatagramTransport.allCases)
  func `tshark finds nothing odd`(transport: DatagramTransport) async throws {
    let capture = try PacketCapture(path: path())
    let (client, server, address) = try transport.pair { $0.capture = capture }
    for count in [0, 1, 1_000, 9_000] {
      try await client.send(pattern(count), to: address)
      try await server.send(try await server.receive().reply(pattern(count)))
    }
    try await capture.finish()
    let checks = ["-o", "udp.check_checksum:TRUE", "-o", "ip.check_checksum:TRUE"]
    let odd = "udp.checksum.status == 0 || ip.checksum.status == 0 || _ws.malformed || !udp"
    for (filter, count) in [(odd, 0), ("udp", 8)] {
      let program = try await Program(.tshark, ["-n", "-r", try path()] + checks + ["-Y", filter])
      let lines = await program.output.lines
      #expect(lines.count == count, "\(lines)")
      #expect(try await program.exitStatus() == 0)
    }
  }
}
