// What a simulation has done, for the person who looks for the reason of a failure.
//
// Invariants:
// - Each event counts in the hash with all that it has, such as addresses and bytes, also if its line is not kept. So two runs with one
//   hash did the same things at the same times.
// - No line contains anything that differs from run to run: no address, no real time, no number that the process counts.

internal import SocketSystem

struct SimulationTrace {
  enum Event {
    /// Tasks are numbered in the order in which they appear.
    case task(Int)
    case mainActor(Int)
    case worker(Int)
    /// An actor continued with the calls that waited for it.
    case actor
    case reactor
    case note(String)
    case packet(SimulatedNetwork.PacketEvent)
    /// Bytes that no network carries, with their hash.
    case local(LocalBytes, count: Int, hash: UInt64)
    /// A call of a disk, or what a crash did to it, with the hash of the bytes.
    case disk(String, hash: UInt64)
  }

  enum LocalBytes: UInt64 { case memory, unixSocket }

  static let kept = 1_000

  /// Whether all events are kept, and the hash after each.
  var keepsAll = false
  /// Gets what a person has to know about the run; `nil` unless the run is recorded.
  var observer: ((RunEvent) -> Void)?
  /// Whether the observer knows of a failure.
  var hasFailure = false
  private var hashes: [UInt64] = []
  private var content = TraceHash()
  var hash: UInt64 { content.value }
  private(set) var count = 0
  private typealias Entry = (time: Int64, host: Int, event: Event)
  private var last: [Entry] = []
  /// The first host is that of the simulation's program. Its name is not shown.
  var hosts = [VirtualThread.ownHost]

  /// `time` is in nanoseconds since the beginning.
  mutating func record(_ event: Event, at time: Int64, on host: Int) {
    if keepsAll || last.count < Self.kept {
      last.append((time, host, event))
    } else {
      last[count % Self.kept] = (time, host, event)
    }
    count += 1
    mix(event, UInt64(bitPattern: time), UInt64(host))
    if keepsAll { hashes.append(hash) }
  }

  private mutating func mix(_ event: Event, _ time: UInt64, _ host: UInt64) {
    content.mix(time)
    content.mix(host)
    switch event {
    case .task(let number): mix(1, UInt64(number))
    case .mainActor(let number): mix(2, UInt64(number))
    case .worker(let number): mix(3, UInt64(number))
    case .actor: mix(4, 0)
    case .reactor: mix(5, 0)
    case .note(let text):
      mix(6, 0)
      content.mix(Array(text.utf8).span)
    case .packet(let packet):
      mix(7, UInt64(packet.kind.rawValue))
      content.mix(packet.source)
      content.mix(packet.destination)
      for part in [packet.copies, packet.sequence, packet.acknowledged ?? -1, packet.count] {
        content.mix(UInt64(bitPattern: Int64(part)))
      }
      content.mix(UInt64(packet.flags))
      content.mix(packet.hash)
    case .local(let way, _, let hash):
      mix(8, way.rawValue)
      content.mix(hash)
    case .disk(let text, let hash):
      mix(9, hash)
      content.mix(Array(text.utf8).span)
    }
  }

  private mutating func mix(_ kind: UInt64, _ value: UInt64) { content.mix(kind << 56 ^ value) }

  /// The earliest first.
  var lines: [String] {
    let first = keepsAll || last.count < Self.kept ? 0 : count % Self.kept
    return (last[first...] + last[..<first]).suffix(Self.kept).map { line(of: $0) }
  }

  private func line(of entry: Entry) -> String {
    let (time, host, event) = entry
    let name = host > 0 && host < hosts.count ? "\(hosts[host]): " : ""
    let text =
      switch event {
      case .task(let number): "task \(number) runs"
      case .mainActor(let number): "task \(number) runs on the main actor"
      case .worker(let number): "task \(number) runs for the worker pool"
      case .actor: "an actor runs"
      case .reactor: "the reactor runs"
      case .note(let text), .disk(let text, _): text
      case .packet(let packet): packet.text(hosts)
      case .local(.memory, let count, _): "\(count) bytes in memory"
      case .local(.unixSocket, let count, _): "\(count) bytes through a unix socket"
      }
    return "\(Self.seconds(time)) \(name)\(text)"
  }

  /// The first events in which another run differs from this one, and what came before; `nil` if the runs are the same. Both keep all events.
  func difference(from other: SimulationTrace) -> String? {
    let index = zip(hashes, other.hashes).enumerated().first { $1.0 != $1.1 }?.offset ?? min(count, other.count)
    if index == max(count, other.count) { return nil }
    let lines = [self, other].map { trace in
      index < trace.count
        ? trace.line(of: trace.last[index]) : "the run has ended"
    }
    let before = last[max(0, index - 5)..<index].map { "\n    \(line(of: $0))" }.joined()
    let bytes = lines[0] == lines[1] ? ", with other bytes" : ""
    return
      "the first run: \(lines[0])\n  the second run: \(lines[1])\(bytes)\n  before:\(before.isEmpty ? " nothing" : before)"
  }

  /// In seconds, with nine decimals.
  static func seconds(_ nanoseconds: Int64) -> String {
    let fraction = String(nanoseconds % 1_000_000_000)
    return "\(nanoseconds / 1_000_000_000)." + String(repeating: "0", count: 9 - fraction.count) + fraction + " s"
  }
}
