// Writes the packets of a link into a capture file. The packets of a simulation have no headers, so this makes them.

internal import ActorSockets
internal import SocketSystem

final class PacketRecorder: Sendable {
  private let file: BackgroundFile
  /// Packets of this host go out, those of `second` come in.
  private let first: Int
  private let second: Int

  /// Windows of segments count in units of 2 to the power of this, as they mostly do with Linux.
  private static let windowScale: UInt8 = 7

  init(between first: Int, and second: Int, path: String) throws(SystemError) {
    self.first = first
    self.second = second
    // A thread writes the file. Nothing is dropped, because the same seed must give the same file.
    file = try BackgroundFile(
      path: path, replacing: true, bufferSize: .max / 2, fileSize: .max / 2, header: CaptureBlock.header,
      trailer: { _ in [] })
  }

  /// Ignores packets that are not between the two hosts. `mtu` is in bytes, `time` in nanoseconds; `arrivals` is 0 for a lost packet.
  func record(_ packet: Packet, from sender: Int, to receiver: Int, mtu: Int, at time: Int64, arrivals: Int) {
    let isOutbound = sender == first && receiver == second
    guard isOutbound || (sender == second && receiver == first), let bytes = Self.encoded(packet, mtu: mtu) else {
      return
    }
    let comment = arrivals == 0 ? "lost" : arrivals > 1 ? "arrives twice" : nil
    file.append([CaptureBlock.packet(bytes, at: time, isOutbound ? .outbound : .inbound, comment: comment)])
  }

  /// Waits until the file is complete. Returns `nil`, or the reason why it is not.
  func finish() -> SystemError? {
    let isDone = Locked(false)
    let condition = Condition()
    file.close {
      isDone.withLock { $0 = true }
      condition.signal()
    }
    isDone.wait(for: condition) { $0 ? () : nil }
    return file.report.failure
  }

  // MARK: Packets

  private static func encoded(_ packet: Packet, mtu: Int) -> [UInt8]? {
    guard let source = CapturedEnd(packet.source), let destination = CapturedEnd(packet.destination) else { return nil }
    switch packet.content {
    case .segment(let segment): return encoded(segment, source, destination, mtu: mtu)
    case .datagram(let datagram):
      let header = CapturedDatagram(
        source: source, destination: destination, hopLimit: datagram.hopLimit, trafficClass: datagram.trafficClass)
      return header.encoded(datagram.bytes.span)
    case .report(let report): return encoded(report, source, destination)
    }
  }

  private static func encoded(
    _ segment: Segment, _ source: CapturedEnd, _ destination: CapturedEnd, mtu: Int
  ) -> [UInt8] {
    var flags: CapturedPacket.Flags = []
    if segment.isFin { flags.insert(.finish) }
    if segment.isSyn { flags.insert(.synchronize) }
    if segment.isReset { flags.insert(.reset) }
    if !segment.bytes.isEmpty { flags.insert(.push) }
    if segment.acknowledged != nil { flags.insert(.acknowledge) }
    // The window of a SYN is not scaled.
    let window = segment.isSyn ? segment.window : (segment.window + (1 << Int(windowScale)) - 1) >> Int(windowScale)
    let headers = source.address.count == 4 ? 40 : 60
    let packet = CapturedPacket(
      source: source, destination: destination, sequence: UInt32(truncatingIfNeeded: segment.sequence),
      acknowledgement: UInt32(truncatingIfNeeded: segment.acknowledged ?? 0), flags: flags,
      window: UInt16(clamping: window), windowScale: windowScale, segmentSize: UInt16(clamping: max(536, mtu - headers))
    )
    return packet.encoded(segment.bytes.span)
  }

  /// "Destination unreachable", with the headers of the packet that it is about: RFC 792, RFC 4443. The report does not have its bytes.
  private static func encoded(_ report: ICMPReport, _ source: CapturedEnd, _ destination: CapturedEnd) -> [UInt8]? {
    guard let sender = CapturedEnd(report.flow.local), let receiver = CapturedEnd(report.flow.remote) else {
      return nil
    }
    let isIPv4 = source.address.count == 4
    let header = CapturedIPHeader(
      source: source.address, destination: destination.address, protocolNumber: isIPv4 ? 1 : 58)
    var bytes: [UInt8] = [report.wire.type, report.wire.code, 0, 0, 0, 0, 0, 0]
    if let sequence = report.sequence {
      // The first 64 bits of the segment, which have its ports and its number.
      let original = CapturedIPHeader(source: sender.address, destination: receiver.address, protocolNumber: 6)
      bytes += original.encoded(8) + sender.port.bigEndianBytes + receiver.port.bigEndianBytes
      bytes += UInt32(truncatingIfNeeded: sequence).bigEndianBytes
    } else {
      let nothing: [UInt8] = []
      bytes += CapturedDatagram(source: sender, destination: receiver).encoded(nothing.span)
    }
    let checksum = isIPv4 ? CapturedIPHeader.checksum(of: bytes.span) : header.checksum(of: bytes.span)
    bytes.replaceSubrange(2..<4, with: checksum.bigEndianBytes)
    return header.encoded(bytes.count) + bytes
  }
}
