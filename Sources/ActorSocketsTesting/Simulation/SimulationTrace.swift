// What a simulation has done, for the person who looks for the reason of a failure.
//
// Invariants:
// - Each event counts in the hash, also those whose lines are not kept. So two runs with one hash did the same things at the same times.
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
  }

  static let kept = 1_000

  private(set) var hash: UInt64 = 0xcbf2_9ce4_8422_2325
  private(set) var count = 0
  private var last: [(time: Int64, host: Int, event: Event)] = []
  /// The first host is that of the simulation's program. Its name is not shown.
  var hosts: [String] = []

  /// `time` is in nanoseconds since the beginning.
  mutating func record(_ event: Event, at time: Int64, on host: Int) {
    if last.count < Self.kept {
      last.append((time, host, event))
    } else {
      last[count % Self.kept] = (time, host, event)
    }
    count += 1
    mix(UInt64(bitPattern: time), UInt64(host))
    switch event {
    case .task(let number): mix(1, UInt64(number))
    case .mainActor(let number): mix(2, UInt64(number))
    case .worker(let number): mix(3, UInt64(number))
    case .actor: mix(4)
    case .reactor: mix(5)
    case .note(let text):
      mix(6, UInt64(text.utf8.count))
      for byte in text.utf8 { mix(UInt64(byte)) }
    case .packet(let packet):
      mix(
        7, (packet.isLost ? 1 : 0) | UInt64(packet.kind.rawValue) << 1, UInt64(packet.source.port ?? 0),
        UInt64(packet.destination.port ?? 0))
      mix(UInt64(packet.sequence), UInt64(packet.count), UInt64(packet.acknowledged ?? 0), UInt64(packet.flags))
    }
  }

  /// FNV-1a, a word at a time.
  private mutating func mix(_ values: UInt64...) {
    for value in values { hash = (hash ^ value) &* 0x0000_0100_0000_01b3 }
  }

  /// The earliest first.
  var lines: [String] {
    let first = last.count < Self.kept ? 0 : count % Self.kept
    return (last[first...] + last[..<first]).map { time, host, event in
      let name = host > 0 && host < hosts.count ? "\(hosts[host]): " : ""
      let text =
        switch event {
        case .task(let number): "task \(number) runs"
        case .mainActor(let number): "task \(number) runs on the main actor"
        case .worker(let number): "task \(number) runs for the worker pool"
        case .actor: "an actor runs"
        case .reactor: "the reactor runs"
        case .note(let text): text
        case .packet(let packet): packet.description
        }
      return "\(Self.seconds(time)) \(name)\(text)"
    }
  }

  /// In seconds, with nine decimals.
  static func seconds(_ nanoseconds: Int64) -> String {
    let fraction = String(nanoseconds % 1_000_000_000)
    return "\(nanoseconds / 1_000_000_000)." + String(repeating: "0", count: 9 - fraction.count) + fraction + " s"
  }
}
