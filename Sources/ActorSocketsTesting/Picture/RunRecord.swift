// The events of one run, within a limit. A pure machine.
//
// Invariants:
// - Packets, links and other events have a limit each, so a large number of packets does not displace what explains them. The oldest go
//   first, and are counted.
// - The first failure and what waited then stay, and so does what is stored when it happens. Later events have limits of their own, which
//   are smaller. The last of them are left out, and are counted.
// - The names of hosts stay.
// - The size of an event is at least that of its text in the picture, so the limits bound the file.

struct RunRecord {
  struct Limits: Sendable {
    /// In bytes.
    var packets = 4_500_000
    var others = 1_500_000
    var links = 300_000
    /// In events of each kind: the picture has to stay quick.
    var count = 60_000
  }

  private(set) var hosts = [VirtualThread.ownHost]
  /// What came up to the first failure, and what waited then.
  private var before: Lists
  private var after: Lists
  /// The number of the next event. It orders events of one time.
  private var next = 0
  /// The first failure.
  private(set) var failure: RunEvent?
  /// The operations and tasks that waited at the first failure; `nil` if that is not known.
  private var firstWaiting: [String]?
  /// The hash of the trace when the run ended; `nil` if the process ended before.
  private(set) var hash: UInt64?
  /// The time of the last event.
  private(set) var end: Int64 = 0
  /// The host of the last event.
  private(set) var lastHost = 0

  init(_ limits: Limits = Limits()) {
    before = Lists(limits, share: 1, keepsFirst: false)
    after = Lists(limits, share: 10, keepsFirst: true)
  }

  mutating func add(_ event: RunEvent) {
    end = max(end, event.time)
    lastHost = event.host
    if case .clock = event.content { return }
    defer { next += 1 }
    switch event.content {
    case .host(let name): hosts.append(RunEvent.cut(name, to: 100))
    case .failure where failure == nil:
      before.others.addAlways(event, next)
      failure = event
    case .waiting(let lines) where failure != nil && firstWaiting == nil:
      before.others.addAlways(event, next)
      firstWaiting = lines
    case .end(let hash):
      self.hash = hash
      add(event, next)
    default: add(event, next)
    }
  }

  private mutating func add(_ event: RunEvent, _ number: Int) {
    if failure == nil { before.add(event, number) } else { after.add(event, number) }
  }

  var packets: some Collection<LimitedList.Element> { before.packets.elements + after.packets.elements }
  /// Not packets and hosts; in their order.
  var others: some Collection<LimitedList.Element> {
    let all = before.others.elements + before.links.elements + after.others.elements + after.links.elements
    return all.sorted { $0.number < $1.number }
  }

  /// How many were left out because they are too old.
  var droppedPackets: Int { before.packets.dropped }
  var droppedOthers: Int { before.others.dropped + before.links.dropped }
  /// Not links.
  var droppedLines: Int { before.others.dropped }
  /// How many were left out because they came long after the failure.
  var droppedLater: Int { after.packets.dropped + after.others.dropped + after.links.dropped }

  var waiting: [String] { firstWaiting ?? [] }

  func name(of host: Int) -> String { hosts.indices.contains(host) ? hosts[host] : "host \(host)" }

  private struct Lists {
    var packets: LimitedList
    var links: LimitedList
    var others: LimitedList

    init(_ limits: Limits, share: Int, keepsFirst: Bool) {
      func list(_ size: Int) -> LimitedList {
        LimitedList(size: size / share, count: limits.count / share, keepsFirst: keepsFirst)
      }
      packets = list(limits.packets)
      links = list(limits.links)
      others = list(limits.others)
    }

    mutating func add(_ event: RunEvent, _ number: Int) {
      switch event.content {
      case .packet: packets.add(event, number)
      case .link: links.add(event, number)
      default: others.add(event, number)
      }
    }
  }
}

/// The last events within a limit, or the first ones.
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
  private let keepsFirst: Bool
  private var stored: [Element] = []
  /// Elements before it are dropped.
  private var first = 0
  private var size = 0
  private(set) var dropped = 0

  /// `size` is in bytes.
  init(size: Int, count: Int, keepsFirst: Bool = false) {
    mostBytes = size
    mostElements = count
    self.keepsFirst = keepsFirst
  }

  var elements: ArraySlice<Element> { stored[first...] }

  mutating func add(_ event: RunEvent, _ number: Int) {
    let element = Element(event: event, number: number, size: event.jsonSize)
    if keepsFirst, dropped > 0 || size + element.size > mostBytes || stored.count == mostElements {
      dropped += 1
      return
    }
    append(element)
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

  /// Nothing is dropped for it.
  mutating func addAlways(_ event: RunEvent, _ number: Int) {
    append(Element(event: event, number: number, size: event.jsonSize))
  }

  private mutating func append(_ element: Element) {
    stored.append(element)
    size += element.size
  }
}
