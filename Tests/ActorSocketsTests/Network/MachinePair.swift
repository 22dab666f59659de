import SocketSystem
import TestSupport

@testable import ActorSocketsTesting

/// Two machines, and a channel between them that loses, delays, repeats and reorders segments as a seed decides. Each machine has a
/// program that acts only when the machine has woken it, as the edges of epoll do.
struct MachinePair {
  struct Character {
    /// The percentage of segments that are lost, and of those that arrive twice.
    var loss = 0
    var repeats = 0
    /// The longest way of a segment, in milliseconds.
    var slowest = 1
    var silence = Int64.max
    var mayClose = false
  }

  private struct Arrival {
    let time: Int64
    let order: Int
    let segment: Segment
    let target: Int
  }

  private(set) var ends: [MachineProgram]
  private(set) var now: Int64 = 0
  private let character: Character
  private var random: SeededRandom
  private var channel: [Arrival] = []
  private var count = 0
  /// The segments lost one after the other, per direction, and while the connection opens. They are limited, so that no connection has
  /// a reason to give up.
  private var lostInARow = [0, 0]
  private var lostWhileOpening = 0

  init(seed: UInt64, _ character: (inout SeededRandom) -> Character) {
    random = SeededRandom(seed: seed)
    self.character = character(&random)
    ends = [MachineProgram(0, &random), MachineProgram(1, &random)]
    ends[0].machine.connect(at: 0)
    take(0)
  }

  /// A description of the first state that must never be; `nil` if there was no such state.
  private(set) var flaw: String?
  var hasEnded: Bool { ends.allSatisfy { $0.hasEnded } }

  mutating func run(atMost most: Int = 5_000) {
    for _ in 0..<most {
      let arrival = channel.indices.min {
        (channel[$0].time, channel[$0].order) < (channel[$1].time, channel[$1].order)
      }
      let times = [arrival.map { channel[$0].time }] + ends.flatMap { [$0.machine.nextTimer, $0.nextAct] }
      guard let next = times.compactMap({ $0 }).min() else { return }
      now = max(now, next)
      if let arrival, channel[arrival].time <= now {
        let arrived = channel.remove(at: arrival)
        deliver(arrived.segment, to: arrived.target)
      }
      for index in 0...1 {
        if let timer = ends[index].machine.nextTimer, timer <= now { ends[index].machine.timeHasCome(now) }
        take(index)
        ends[index].act(at: now, mayClose: character.mayClose, &random)
        take(index)
      }
      if flaw != nil { return }
    }
    flaw = "the connection never comes to rest: \(ends)"
  }

  /// A kernel would find the machine, or answer in its place.
  private mutating func deliver(_ segment: Segment, to index: Int) {
    let state = ends[index].machine.state
    if state == .closed, !ends[index].hasBegun, segment.isSyn, segment.acknowledged == nil {
      ends[index].hasBegun = true
      ends[index].machine.accept(segment, at: now)
    } else if state == .closed {
      if segment.isReset { return }
      let answer =
        segment.acknowledged.map { Segment(isReset: true, sequence: $0) }
        ?? Segment(isReset: true, sequence: 0, acknowledged: segment.end)
      send(answer, from: index)
    } else if state == .timeWait {
      let machine = ends[index].machine
      if segment.length > 0 {
        send(Segment(sequence: machine.sending.next, acknowledged: machine.receiving.expected), from: index)
      }
    } else {
      ends[index].machine.receive(segment, at: now)
    }
  }

  private mutating func take(_ index: Int) {
    let effects = ends[index].machine.effects
    ends[index].machine.effects = TCPMachine.Effects()
    for events in effects.wakes { ends[index].wake(events) }
    for segment in effects.segments { send(segment, from: index) }
    if flaw == nil { flaw = ends[index].flaw.map { "at \(now): \($0)" } }
  }

  private mutating func send(_ segment: Segment, from index: Int) {
    let isOpening = ends.contains { $0.machine.state == .synSent || $0.machine.state == .synReceived }
    if now >= character.silence { return }
    if percent(character.loss), lostInARow[index] < 3, !isOpening || lostWhileOpening < 4 {
      lostInARow[index] += 1
      if isOpening { lostWhileOpening += 1 }
      return
    }
    lostInARow[index] = 0
    for _ in 0..<(percent(character.repeats) ? 2 : 1) {
      count += 1
      let delay = Int64(1 + random.below(character.slowest)) * 1_000_000
      channel.append(Arrival(time: now + delay, order: count, segment: segment, target: 1 - index))
    }
  }

  private mutating func percent(_ share: Int) -> Bool { random.below(100) < share }
}

struct MachineProgram {
  var machine = TCPMachine()
  var hasBegun: Bool
  private let number: Int
  /// The bytes that the program writes before it finishes.
  let length: Int
  private(set) var written = 0
  private(set) var read = 0
  private var mayRead = false
  private var mayWrite = false
  private(set) var hasReadEnd = false
  private(set) var error: Int32?
  private var hasClosed = false
  private var sleepsUntil: Int64 = 0
  private(set) var flaw: String?

  init(_ number: Int, _ random: inout SeededRandom) {
    self.number = number
    hasBegun = number == 0
    length = random.below(4) == 0 ? 0 : random.below(400)
    machine.sending.segmentSize = 8 + random.below(60)
    machine.sending.isEager = random.below(2) == 0
    machine.repair.recovery.congestion.algorithm = random.below(2) == 0 ? .cubic : .reno
    machine.sending.bufferSize = 20 + random.below(200)
    machine.receiving.bufferSize = 20 + random.below(200)
  }

  private static func byte(_ position: Int, from number: Int) -> UInt8 {
    UInt8(truncatingIfNeeded: position &* 7 &+ position >> 5 &+ number &* 100)
  }

  var hasEnded: Bool { machine.state == .closed || machine.state == .timeWait }
  /// Whether something is not acknowledged, or not sent.
  var waits: Bool {
    let sending = machine.sending
    return sending.next > sending.unacknowledged || sending.next < sending.end
  }

  /// When the program acts next; `nil` if it waits for its machine.
  var nextAct: Int64? { mayRead || mayWrite && !hasClosed ? sleepsUntil : nil }

  mutating func wake(_ events: Readiness) {
    if events.contains(.readable) { mayRead = true }
    if events.contains(.writable) { mayWrite = true }
    check()
  }

  private mutating func check() {
    let (sending, receiving) = (machine.sending, machine.receiving)
    if sending.unacknowledged > sending.next { flaw = "acknowledged but not sent: \(machine)" }
    if !hasEnded, sending.next > sending.unacknowledged + sending.bytes.count + 2 {
      flaw = "sent but not kept: \(machine)"
    }
    if receiving.bytes.count > receiving.bufferSize { flaw = "holds too much: \(machine)" }
    if sending.bytes.count > sending.bufferSize { flaw = "took too much: \(machine)" }
    if let wait = machine.acknowledging.timer, wait > machine.now + 200_000_000 {
      flaw = "an acknowledgement waits too long: \(machine)"
    }
    checkBoard()
    if hasEnded {
      if machine.nextTimer != nil { flaw = "a timer runs after the end: \(machine)" }
    } else if waits, machine.repair.timer == nil {
      flaw = "something waits, and no timer runs: \(machine)"
    }
  }

  /// The scoreboard has exactly what is in flight, and counts its marks.
  private mutating func checkBoard() {
    let (sending, board) = (machine.sending, machine.repair.recovery.board)
    if machine.repair.recovery.congestion.window < 1 { flaw = "nothing may be in flight: \(machine)" }
    if board.selected != board.segments.count(where: \.isSelected)
      || board.lost != board.segments.count(where: \.isLost)
      || board.repeated != board.segments.count(where: \.isRepeated)
    {
      flaw = "the counts of segments are wrong: \(board)"
    }
    if zip(board.segments, board.segments.dropFirst()).contains(where: { $0.end != $1.start }) {
      flaw = "segments do not follow each other: \(board)"
    }
    if hasEnded || !hasBegun || machine.state == .synSent && board.count == 0 { return }
    let range = (board.oldest?.start ?? sending.next)..<(board.last?.end ?? sending.next)
    if range != sending.unacknowledged..<sending.next { flaw = "the scoreboard has \(range): \(machine)" }
  }

  mutating func act(at now: Int64, mayClose: Bool, _ random: inout SeededRandom) {
    check()
    while nextAct != nil, sleepsUntil <= now {
      if mayRead { receive(at: now, &random) }
      if mayWrite, !hasClosed { send(at: now, mayClose, &random) }
      check()
      // A program that sleeps long closes its window.
      switch random.below(24) {
      case 0: sleepsUntil = now + Int64(1 + random.below(100)) * 1_000_000_000
      case 1...8: sleepsUntil = now + Int64(random.below(200)) * 1_000_000
      default: break
      }
    }
  }

  private mutating func receive(at now: Int64, _ random: inout SeededRandom) {
    let count = min(1 + random.below(100), machine.receiving.bytes.count)
    if count == 0 {
      mayRead = false
      let result = machine.emptyReceive()
      if result == 0 { hasReadEnd = true }
      if result < 0, result != -Int(Errno.wouldBlock) { error = Int32(-result) }
      return
    }
    for byte in machine.receiving.bytes.copy(0..<count) {
      if byte != Self.byte(read, from: 1 - number) { flaw = "byte \(read) is another one" }
      read += 1
    }
    machine.programReceived(count, at: now)
  }

  private mutating func send(at now: Int64, _ mayClose: Bool, _ random: inout SeededRandom) {
    if mayClose, random.below(10) == 0 {
      hasClosed = true
      return machine.close(discards: random.below(2) == 0, at: now)
    }
    if written == length {
      mayWrite = false
      return machine.finish(at: now)
    }
    let count = min(1 + random.below(100), length - written)
    let bytes = (written..<(written + count)).map { Self.byte($0, from: number) }
    let result = machine.send(bytes.span, at: now)
    if result < count { mayWrite = false }
    if result >= 0 { written += result } else if result != -Int(Errno.wouldBlock) { error = Int32(-result) }
  }
}

/// Carries segments between two machines until they have nothing more to say. Acknowledgements that wait are sent, too.
func exchange(_ one: inout TCPMachine, _ other: inout TCPMachine, at now: Int64) {
  repeat {
    while !one.effects.segments.isEmpty || !other.effects.segments.isEmpty {
      let (fromOne, fromOther) = (one.effects.segments, other.effects.segments)
      one.effects.segments = []
      other.effects.segments = []
      for segment in fromOne { other.receive(segment, at: now) }
      for segment in fromOther { one.receive(segment, at: now) }
    }
    if let time = one.acknowledging.timer { one.timeHasCome(time) }
    if let time = other.acknowledging.timer { other.timeHasCome(time) }
  } while !one.effects.segments.isEmpty || !other.effects.segments.isEmpty
}
