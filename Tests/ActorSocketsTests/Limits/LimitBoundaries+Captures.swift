import Foundation
import Glibc
import SocketSystem
import TestSupport

@testable import ActorSockets

extension LimitBoundaries {
  private static let file = "bytes of a capture's file"
  private static let buffer = "bytes of a capture that wait for the disk; further packets are dropped"

  static let captures: [LimitBoundary] = [
    .most(file) { count in
      let capture = try PacketCapture(path: "/dev/null", replacing: true)
      let trailer = CaptureBlock.statistics(recorded: 0, dropped: 0, at: 0)
      var left = count - CaptureBlock.header.count - trailer.count
      let largest = [UInt8](repeating: 0, count: 1 << 20)
      while left > 0, !capture.hasReachedMaximumSize {
        let unit = left < largest.count ? Array(largest.prefix(left)) : largest
        let before = capture.recordedPackets
        capture.append([unit])
        // If it was dropped, the buffer is full, and there will be room for it.
        if capture.recordedPackets > before { left -= unit.count } else { await Task.yield() }
      }
      return left == 0 && !capture.hasReachedMaximumSize
    },
    .least(file, position: 1) { count in
      (try? PacketCapture(path: "/dev/null", replacing: true, maximumFileSize: count)) != nil
    },
    .most(buffer) { count in try await waitForDisk(count) },
    .least(buffer, position: 1) { count in
      (try? PacketCapture(path: "/dev/null", replacing: true, bufferSize: count)) != nil
    },
    .most("bytes of one recorded packet, its headers included") { count in
      let end = CapturedEnd(address: [127, 0, 0, 1], port: 1)
      var conversation = CapturedConversation(local: end, remote: end, isAccepted: false, sequence: (1, 1))
      _ = conversation.begin()
      // The headers of IPv4 and TCP have 20 bytes each.
      let packets = conversation.sent([UInt8](repeating: 1, count: count - 40).span, by: .local)
      return packets.map(\.bytes.count) == [count]
    },
    .most("characters of a connection's name and addresses in a capture") { count in
      let folder = try Folder()
      let path = folder.file("capture").path
      let capture = try PacketCapture(path: path)
      var identity = ConnectionIdentity()
      identity.label = ""
      let rest = ObservedConnection(7, identity).description.utf8.count
      identity.label = String(repeating: "x", count: count - rest)
      let name = ObservedConnection(7, identity).description
      ConversationRecorder(capture, 7, Locked(identity), isAccepted: false)?.begin()
      try await capture.finish()
      return try CaptureFile(path: path).packets.first?.comment == "connection \(name)"
    },
  ]

  /// Whether this many bytes wait for a pipe from which nothing is read, without a loss.
  private static func waitForDisk(_ count: Int) async throws -> Bool {
    let folder = try Folder()
    let path = folder.file("pipe").path
    // SAFETY: the text is valid for the call.
    guard unsafe mkfifo(path, 0o600) == 0 else { throw SystemError(call: "mkfifo", errno: errno) }
    let reader = RawSocket(owning: try OwnedDescriptor.openForReading(path).release())
    let capture = try PacketCapture(path: path, replacing: true)
    var left = CaptureBlock.header.count
    try await eventually("the header has arrived") {
      left -= try readNow(reader.number, atMost: left).count
      return left == 0
    }
    // More than a pipe has room for. When its first byte arrives, the thread writes it, and only it.
    let first = [UInt8](repeating: 0, count: 200_000)
    capture.append([first])
    try await eventually("the first unit is being written") { try readNow(reader.number, atMost: 1).count == 1 }
    capture.append([[UInt8](repeating: 0, count: count - first.count)])
    return capture.recordedPackets == 2 && capture.droppedPackets == 0
  }

  static func readNow(_ number: Int32, atMost count: Int) throws -> [UInt8] {
    var bytes = [UInt8](repeating: 0, count: count)
    // SAFETY: read writes no more than the array has room for.
    let result = unsafe bytes.withUnsafeMutableBytes { unsafe Glibc.read(number, $0.baseAddress, $0.count) }
    if result < 0, errno != EAGAIN { throw SystemError(call: "read", errno: errno) }
    return Array(bytes[..<max(0, result)])
  }
}
