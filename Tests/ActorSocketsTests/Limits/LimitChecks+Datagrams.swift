import EpollReactor
import SocketSystem
import TestSupport

@testable import ActorSockets

extension LimitChecks {
  private static let endpoint = UDPEndpoint.Configuration()

  static let datagrams: [LimitCheck] = [
    LimitCheck("bytes of a received datagram, IPv4") { [.number(endpoint.maximumReceiveSizeIPv4)] },
    LimitCheck("bytes of a received datagram, IPv6") { [.number(endpoint.maximumReceiveSizeIPv6)] },
    LimitCheck("bytes of a sent datagram") { [.number(endpoint.maximumSendSize)] },
    LimitCheck("descriptors received with a datagram") {
      [.number(endpoint.descriptorsPerDatagram), .number(DatagramBatch.maximumDescriptors)]
    },
    LimitCheck("bytes that `enqueueSend` may queue; bytes that a datagram counts, at least") {
      [
        .number(endpoint.sendBudget),
        .number(SubmissionLimit.leastCharge),
      ]
    },
    LimitCheck("datagrams fetched with one system call") { [.number(UDPEndpoint.fetchSize)] },
    LimitCheck("the same with ``UDPEndpoint/Configuration/receiveOffload``") {
      // A message that the kernel joins has as many datagrams as one that it divides: UDP_MAX_SEGMENTS of the kernel.
      [
        .number(DatagramBatch.capacity(forSize: DatagramBatch.joinedSize)), .number(SegmentRun.mostDatagrams),
        .number(DatagramBatch.joinedSize),
      ]
    },
    LimitCheck("datagrams sent with one system call; their bytes") {
      let room = try SourceText.number(#"room: Int \{ ([\d_< ]+) \}"#, in: "SocketSystem/Datagrams/DatagramBatch.swift")
      return [.number(DatagramBatch.capacity), .number(room)]
    },
    LimitCheck("datagrams that the kernel gets as one message; their bytes") {
      [.number(SegmentRun.mostDatagrams), .number(SegmentRun.mostBytes)]
    },
    LimitCheck("datagrams sent before other sockets run") { [.number(SendQueue<Int>.budget.operations)] },
    LimitCheck("datagrams that a filter drops before other sockets run, without the fetch that reaches this number") {
      [.number(ReceiveQueue<Int>.budget.operations)]
    },
    LimitCheck(
      "pause before sending is tried again, if there is no room; the first if an event announces room; the longest"
    ) {
      [
        .nanoseconds(RetryPause.firstUnannounced), .nanoseconds(RetryPause.firstAnnounced),
        .nanoseconds(RetryPause.longest),
      ]
    },
    LimitCheck("time that a reply waits for room") { [.nanoseconds(UDPEndpoint.replyPatience)] },
    LimitCheck(
      "the send budget, divided by what waiting replies may have; by what those to one destination may have"
    ) {
      [
        .number(UDPEndpoint.budgetsPerReplyLimit),
        .number(UDPEndpoint.budgetsPerReplyLimit * SendQueue<Int>.replyLineFraction),
      ]
    },
    LimitCheck("reported errors that wait to be read") { [.number(ErrorReports.limit)] },
    LimitCheck("time to look up a peer's name") {
      let pattern = #"timeout: Timeout\? = \.within\(\.seconds\((\d+)\)\)"#
      return [.seconds(try SourceText.number(pattern, in: "ActorSockets/UDP"))]
    },
    LimitCheck("names for which an endpoint remembers the address family that it used") {
      [.number(AddressSearches.rememberedNames)]
    },
    LimitCheck("time for the pending sends, when an endpoint closes after them") {
      let pattern = #"closeAfterPendingSends\(within limit: Duration = \.seconds\((\d+)\)\)"#
      return [.seconds(try SourceText.number(pattern, in: "ActorSockets/UDP"))]
    },
  ]
}
