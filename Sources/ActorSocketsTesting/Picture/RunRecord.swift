// The events of one run, within a limit. A pure machine.
//
// Invariants:
// - Packets and other events have a limit each, so a large number of packets does not displace what explains them. The oldest go first, and are counted.
// - The names of hosts stay.
// - The size of an event is at least that of its text in the picture, so the limits bound the file.

struct RunRecord {
  struct Limits: Sendable {
    /// In bytes.
    var packets = 4_500_000
    var others = 1_500_000
    /// In events: the picture has to stay quick.
    var count = 60_000
  }

  private(set) var hosts = [VirtualThread.ownHost]
  private var packetList: LimitedList
  private var otherList: LimitedList
  /// The number of the next event. It orders events of one time.
  private var next = 0
  /// The hash of the trace when the run ended; `nil` if the process ended before.
  private(set) var hash: UInt64?
  /// The time of the last event.
  private(set) var end: Int64 = 0
  /// The host of the last event.
  private(set) var lastHost = 0

  init(_ limits: Limits = Limits()) {
    packetList = LimitedList(size: limits.packets, count: limits.count)
    otherList = LimitedList(size: limits.others, count: limits.count)
  }

  mutating func add(_ event: RunEvent) {
    end = max(end, event.time)
    lastHost = event.host
    if case .clock = event.content { return }
    defer { next += 1 }
    switch event.content {
    case .host(let name): hosts.append(RunEvent.cut(name, to: 100))
    case .packet: packetList.add(event, next)
    case .end(let hash):
      self.hash = hash
      otherList.add(event, next)
    default: otherList.add(event, next)
    }
  }

  var packets: some Collection<LimitedList.Element> { packetList.elements }
  /// Not packets and hosts.
  var others: some Collection<LimitedList.Element> { otherList.elements }
  var droppedPackets: Int { packetList.dropped }
  var droppedOthers: Int { otherList.dropped }

  /// The first failure.
  var failure: RunEvent? {
    others.first { if case .failure = $0.event.content { true } else { false } }?.event
  }

  /// The operations and tasks that waited at the first failure.
  var waiting: [String] {
    for element in others {
      if case .waiting(let lines) = element.event.content { return lines }
    }
    return []
  }

  func name(of host: Int) -> String { hosts.indices.contains(host) ? hosts[host] : "host \(host)" }
}

struct LimitedList {
  struct Element: Sendable {
    let event: RunEvent
    let number: Int
    /// In bytes: at least that of its text in the picture.
    let size: Int

    /// Its text in the picture.
    var json: [UInt8] { event.json(number) }
  }

  private let mostBytes: Int
  private let mostElements: Int
  private var stored: [Element] = []
  /// Elements before it are dropped.
  private var first = 0
  private var size = 0
  private(set) var dropped = 0

  /// `size` is in bytes.
  init(size: Int, count: Int) {
    mostBytes = size
    mostElements = count
  }

  var elements: ArraySlice<Element> { stored[first...] }

  mutating func add(_ event: RunEvent, _ number: Int) {
    let element = Element(event: event, number: number, size: event.jsonSize)
    stored.append(element)
    size += element.size
    while first < stored.count, size > mostBytes || stored.count - first > mostElements {
      size -= stored[first].size
      first += 1
      dropped += 1
    }
    if first > 1_000, first > stored.count / 2 {
      stored.removeFirst(first)
      first = 0
    }
  }
}
