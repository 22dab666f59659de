import SocketSystem
import TestSupport

@testable import ActorSocketsTesting

/// Two machines with a path between them, on which one program sends bytes and another one takes them at once. Time is virtual.
struct MachinePath {
  /// In nanoseconds, for one direction.
  var delay: Int64
  /// In bits per second; `nil` for no limit.
  var rate: Int?
  /// In bytes. A packet that does not fit is lost.
  var queue = Int.max
  /// Whether the path loses a segment, which is the `number`th of its end.
  var loses: (_ segment: Segment, _ end: Int, _ number: Int) -> Bool = { _, _, _ in false }

  private struct Arrival {
    let time: Int64
    let segment: Segment
  }

  var machines = [TCPMachine(), TCPMachine()]
  private(set) var now: Int64 = 0
  /// The segments that each end has sent, those that were repeated, and those that were lost.
  private(set) var sent = [0, 0]
  private(set) var repeated = [0, 0]
  private(set) var lost = [0, 0]
  private(set) var taken = 0
  private var rest = 0
  private var arrivals: [[Arrival]] = [[], []]
  private var heads = [0, 0]
  private var busyUntil: [Int64] = [0, 0]
  private var hasBegun = false

  static let millisecond: Int64 = 1_000_000

  init(delay: Int64, rate: Int? = nil, queue: Int = .max) {
    self.delay = delay * Self.millisecond
    self.rate = rate
    self.queue = queue
  }

  mutating func connect() {
    machines[0].connect(at: now)
    take(0)
    run { $0.machines[0].state == .established && $0.machines[1].state == .established }
  }

  /// The program sends bytes. They may not fit into the buffer, so it goes on when there is room.
  mutating func send(_ count: Int) {
    rest += count
    fill()
  }

  /// Runs until a condition is met, or a time has come. Returns whether the condition is met.
  @discardableResult
  mutating func run(until end: Int64 = 1_000 * TCPMachine.second, _ isDone: (MachinePath) -> Bool = { _ in false })
    -> Bool
  {
    while !isDone(self) {
      var next = Int64.max
      for end in 0...1 {
        if heads[end] < arrivals[end].count { next = min(next, arrivals[end][heads[end]].time) }
        next = min(next, machines[end].nextTimer ?? .max)
      }
      if next > end {
        now = max(now, end)
        return false
      }
      now = max(now, next)
      for end in 0...1 { step(end) }
    }
    return true
  }

  private mutating func step(_ end: Int) {
    while heads[end] < arrivals[end].count, arrivals[end][heads[end]].time <= now {
      let segment = arrivals[end][heads[end]].segment
      heads[end] += 1
      if end == 1, !hasBegun {
        hasBegun = true
        machines[1].accept(segment, at: now)
      } else {
        machines[end].receive(segment, at: now)
      }
      take(end)
      act(end)
    }
    if let timer = machines[end].nextTimer, timer <= now {
      machines[end].timeHasCome(now)
      take(end)
    }
  }

  private mutating func act(_ end: Int) {
    if end == 0 { return fill() }
    let count = machines[1].receiving.bytes.count
    if count == 0 { return }
    taken += count
    machines[1].programReceived(count, at: now)
    take(1)
  }

  private mutating func fill() {
    while rest > 0, machines[0].sending.hasMuchRoom {
      let count = machines[0].send([UInt8](repeating: 1, count: min(rest, 65_536)).span, at: now)
      if count <= 0 { break }
      rest -= count
    }
    take(0)
  }

  private mutating func take(_ end: Int) {
    let segments = machines[end].effects.segments
    machines[end].effects = TCPMachine.Effects()
    for segment in segments { carry(segment, from: end) }
  }

  private mutating func carry(_ segment: Segment, from end: Int) {
    sent[end] += 1
    if segment.isRepeated { repeated[end] += 1 }
    let size = 20 + segment.headerSize + segment.bytes.count
    var departure = now
    if let rate {
      if Int(max(0, busyUntil[end] - now)) * rate / 8_000_000_000 + size > queue {
        lost[end] += 1
        return
      }
      departure = max(now, busyUntil[end]) + Int64(size * 8) * TCPMachine.second / Int64(rate)
      busyUntil[end] = departure
    }
    if loses(segment, end, sent[end]) {
      lost[end] += 1
      return
    }
    arrivals[1 - end].append(Arrival(time: departure + delay, segment: segment))
  }
}
