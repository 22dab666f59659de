/// Something that happened in a run that is recorded, for a person who looks for the reason of a failure.
struct RunEvent: Hashable, Sendable {
  enum Content: Hashable, Sendable {
    /// A host with this name exists from now on. Its number is the next one.
    case host(String)
    /// A line of the program: `Simulation.note`.
    case note(String)
    /// What the test or chaos has done to hosts or links, in a sentence.
    case change(String)
    /// `change` says it, too, because it is a line of the story.
    case state(of: Int, HostCondition, change: String)
    case link(LinkView)
    case packet(PacketView)
    /// An error that the program has thrown, an expectation that is not met, a deadlock or the end of the process.
    case failure(String)
    /// The operations and tasks that waited when the run failed.
    case waiting([String])
    /// Time has moved, and work of this host runs. It tells when a process has ended, if nothing else does.
    case clock
    /// The program has ended; `hash` is that of the trace.
    case end(hash: UInt64)
  }

  /// In nanoseconds since the beginning.
  let time: Int64
  /// The host whose program did it.
  let host: Int
  let content: Content

  /// In bytes. Longer texts are cut.
  static let longestText = 4_096

  /// The beginning of a text, which says how much is missing.
  static func cut(_ text: String, to longest: Int = longestText) -> String {
    let count = text.utf8.count
    if count <= longest { return text }
    var end = text.utf8.index(text.utf8.startIndex, offsetBy: longest)
    while end.samePosition(in: text.unicodeScalars) == nil { end = text.utf8.index(before: end) }
    return "\(text[..<end])… (\(count) bytes)"
  }
}

extension RunEvent.Content {
  /// With the beginning of a long text.
  var cut: Self {
    switch self {
    case .note(let text): .note(RunEvent.cut(text))
    case .change(let text): .change(RunEvent.cut(text))
    case .failure(let text): .failure(RunEvent.cut(text))
    case .state(let host, let condition, let text): .state(of: host, condition, change: RunEvent.cut(text))
    case .link(let link):
      .link(LinkView(from: link.from, to: link.to, text: RunEvent.cut(link.text), isCut: link.isCut))
    case .host, .packet, .waiting, .clock, .end: self
    }
  }
}

enum HostCondition: String, Sendable, CaseIterable {
  case running, paused
  /// The power has failed: packets that arrive are lost.
  case withoutPower
  /// The program was killed. The kernel continues.
  case killed
}

/// One direction between two hosts, from now on.
struct LinkView: Hashable, Sendable {
  let from: Int
  let to: Int
  /// In what it differs from the default link; empty if in nothing.
  let text: String
  let isCut: Bool
}

/// A packet, and what becomes of it.
struct PacketView: Hashable, Sendable {
  enum Loss: String, Sendable, CaseIterable {
    /// The link was cut.
    case cut
    /// The link loses a fraction of its packets.
    case chance
    case middlebox
    /// A router does not forward it.
    case rejected
  }

  var from: Int
  var to: Int
  /// As on the wire: ICMP 1, TCP 6, UDP 17.
  var kind: UInt8
  var sourcePort = 0
  var destinationPort = 0
  /// Of TCP, as in `PacketEvent`.
  var flags: UInt8 = 0
  var sequence = 0
  var acknowledged: Int?
  /// Whether TCP has sent something of it before.
  var isRepeated = false
  /// The bytes of the program; of ICMP, the `errno`.
  var count: Int
  /// The first ones.
  var bytes: [UInt8] = []
  /// In nanoseconds since the beginning.
  var arrivals: [Int64] = []
  /// `nil` if it arrives.
  var loss: Loss?

  static let keptBytes = 256
}
