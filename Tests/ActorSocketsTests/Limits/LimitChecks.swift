import EpollReactor
import SocketSystem
import TestSupport

@testable import ActorSockets
@testable import ActorSocketsTesting

/// What the code says about the rows of the page with the limits: the values themselves, where tests can see them, and otherwise the
/// text of the sources.
enum LimitChecks {
  private static let connection = TCPConnection.Configuration()
  private static let retry = TCPConnection.Retry()

  static let messages: [LimitCheck] = [
    LimitCheck("bytes of a message, a line, or a read through a delimiter") {
      [.number(try SourceText.number(#"maximumLength: Int = ([\d_]+)"#, in: "ActorSockets"))]
    },
    LimitCheck("bytes of a read of the available bytes") {
      [.number(try SourceText.number(#"upTo limit: Int = ([\d_]+)"#, in: "ActorSockets/Streams"))]
    },
    LimitCheck("messages of a batch; bytes, without the last message") {
      [.number(ReadBuffer.largestBatch.frames), .number(ReadBuffer.largestBatch.bytes)]
    },
    LimitCheck("bytes that `enqueueWrite` may queue, or one write of any size; bytes that a write counts, at least") {
      [.number(connection.writeBudget), .number(SubmissionLimit.leastCharge)]
    },
    LimitCheck("descriptors that the peer of a unix socket passed and that wait") {
      [.number(connection.pendingDescriptorLimit)]
    },
    LimitCheck("bytes of one chunk of `pipe` and `relay`, in each direction") {
      [.number(try SourceText.number(#"read\(upTo: min\(([\d_]+),"#, in: "ActorSockets/Streams/Piping.swift"))]
    },
    LimitCheck("bytes of a capture's file") {
      [
        .number(try SourceText.number(#"maximumFileSize: Int = ([\d_< ]+)"#, in: capture)),
        .number(try SourceText.number(#"smallestFile = ([\d_]+)"#, in: capture)),
      ]
    },
    LimitCheck("bytes of a capture that wait for the disk; further packets are dropped") {
      [
        .number(try SourceText.number(#"bufferSize: Int = ([\d_< ]+)"#, in: capture)),
        .number(try SourceText.number(#"smallestBuffer = ([\d_]+)"#, in: capture)),
      ]
    },
    LimitCheck("bytes of one recorded packet, its headers included") { [.number(CapturedPacket.largest)] },
    LimitCheck("characters of a connection's name and addresses in a capture") {
      let file = "ActorSockets/Capturing/ConversationRecorder.swift"
      return [.number(try SourceText.number(#"longestName: Int \{ ([\d_]+) \}"#, in: file))]
    },
    LimitCheck("bytes that wait at one end of an in-memory connection") {
      [.number(InMemoryConnection.Configuration().capacity)]
    },
  ]
  private static let capture = "ActorSockets/Capturing/PacketCapture.swift"

  static let connecting: [LimitCheck] = [
    LimitCheck("time to connect, for all addresses together") { [.time(connection.connectTimeout)] },
    LimitCheck("time between attempts to connect") {
      [.time(connection.attemptDelay), .nanoseconds(HappyEyeballs.shortestAttemptDelay)]
    },
    LimitCheck("wait for IPv6 addresses after the IPv4 addresses are known") {
      [.nanoseconds(HappyEyeballs.resolutionDelay)]
    },
    LimitCheck("addresses of a name that are tried, for each family") { [.number(HappyEyeballs.maximumAddresses)] },
    LimitCheck("look-ups that run at a time, in the whole process") { [.number(HostLookups.mostThreads)] },
    LimitCheck("of these, look-ups that a call waits for and that have just begun; how long that counts") {
      [.number(LookUpSchedule.promptThreads), .nanoseconds(LookUpSchedule.promptTime)]
    },
    LimitCheck("of these, look-ups of names with the same last two parts") {
      var schedule = LookUpSchedule(maximumThreads: HostLookups.mostThreads)
      for number in 0..<1_000 { schedule.ask(HostQuery(name: "name\(number).a.example", family: .ipv4)) }
      var running = 0
      for time in 0..<100 {
        while case .begin = schedule.next(at: Int64(time) * LookUpSchedule.promptTime) { running += 1 }
      }
      return [.number(running)]
    },
    LimitCheck("tries to connect") {
      [.number(connection.retry == nil ? 1 : retry.maximumTries), .number(retry.maximumTries)]
    },
    LimitCheck("time for one try, with a retry") { [.time(retry.tryTimeout)] },
    LimitCheck("delay before a try is repeated") { [.time(retry.firstDelay), .time(retry.maximumDelay)] },
    LimitCheck("bytes of an HTTP proxy's answer") {
      [.number(try SourceText.number(#"let limit = ([\d_]+)"#, in: "ActorSockets/Proxies/HTTPConnectPreamble.swift"))]
    },
    LimitCheck("interim answers of an HTTP proxy") {
      let file = "ActorSockets/Proxies/HTTPConnectPreamble.swift"
      return [.number(try SourceText.number(#"mostInterimAnswers = (\d+)"#, in: file))]
    },
    LimitCheck("small writes are sent at once (TCP_NODELAY)") { [.isOn(connection.noDelay)] },
    LimitCheck("time to send what was written, in `close()`") { [.time(connection.closeTimeout)] },
    LimitCheck("time to discard input before a TCP socket is closed; while a server drains; if descriptors are short") {
      [
        .nanoseconds(Int(LingeringClose.limit)), .nanoseconds(Int(LingeringConnections<Int>.drainLimit)),
        .nanoseconds(Int(LingeringConnections<Int>.leastLimit)),
      ]
    },
    LimitCheck("closing when the peer has finished and everything was read") {
      [.isOn(connection.closesOnEndOfStream)]
    },
    LimitCheck("aborting when an enqueued write exceeds the write budget") {
      [.isOn(connection.onWriteOverflow != .fail)]
    },
    LimitCheck("closing when an operation times out") { [.isOn(connection.onTimeout != .keepOpen)] },
    LimitCheck("timeout of other operations") {
      for file in ["Reading", "Writing", "Sequences", "Moving"] {
        // Finds a number only if a default is not `nil`.
        let path = "ActorSockets/Streams/ByteStream+\(file).swift"
        if let other = try? SourceText.number(#"timeout: Timeout\? = (?!nil)(?:\D*)(\d+)"#, in: path) {
          return [.number(other)]
        }
      }
      return ["none"]
    },
  ]

  static let liveness: [LimitCheck] = [
    LimitCheck("time without bytes before keep-alive probes the peer") { [.time(try keepAlive().idle)] },
    LimitCheck("time between two probes") { [.time(try keepAlive().interval)] },
    LimitCheck("probes without an answer before the connection ends") { [.number(try keepAlive().count)] },
    LimitCheck("time in which no byte moves") {
      [connection.liveness.idleTimeout.map { .time($0) } ?? "no limit"]
    },
    LimitCheck("time that sent bytes stay unacknowledged") {
      [connection.liveness.unacknowledgedTimeout.map { .time($0) } ?? "the system's"]
    },
    LimitCheck("pause between two checks for an acknowledgement, in `flush`") {
      var acknowledgements = Acknowledgements<Int>()
      let first = acknowledgements.nextPause()
      for _ in 0..<1_000 { _ = acknowledgements.nextPause() }
      return [.nanoseconds(first), .nanoseconds(acknowledgements.nextPause())]
    },
  ]

  private static func keepAlive() throws -> TCPConnection.Liveness.KeepAlive {
    guard let keepAlive = connection.liveness.keepAlive else {
      throw SourceText.Problem(description: "keep-alive is off")
    }
    return keepAlive
  }
}
