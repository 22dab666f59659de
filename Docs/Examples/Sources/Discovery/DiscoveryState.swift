import ActorSockets

/// A program that was found.
struct DiscoveredPeer: Hashable, Sendable {
  /// The number that the program has chosen when it started.
  let id: UInt64
  var service: DiscoveredService
  /// The addresses that its announcements come from, with the port of the service.
  var addresses: [SocketAddress] = []
}

enum DiscoveryEvent: Hashable, Sendable {
  case found(DiscoveredPeer)
  /// The service has other properties, or was heard from more or fewer addresses.
  case changed(DiscoveredPeer)
  case lost(DiscoveredPeer)
}

/// The decisions of a program that announces itself and listens to others. It does no input and output, and takes the time from outside.
///
/// Invariants:
/// - What others send costs a limited amount of memory, and on each interface at most one announcement in each `pause`.
/// - Answers have random delays, because one query reaches all programs of the network at the same time.
struct DiscoveryState {
  typealias Instant = ContinuousClock.Instant

  struct Settings: Sendable {
    /// For how many seconds others remember an announcement. It is sent again after a third of this time.
    var lifetime: UInt16 = 60
    /// The longest time for which an announcement of others is remembered, in seconds.
    var longestLifetime: UInt16 = 3600
    /// The largest number of peers. More are not noticed until some are lost.
    var peers = 256
    /// The largest number of peers at one address: one host does not fill the table.
    var peersPerAddress = 16
    /// The largest number of addresses of a peer.
    var addresses = 8
    /// The shortest time between two announcements on an interface.
    var pause: Duration = .seconds(1)
    /// The delay before an answer to a query, in milliseconds.
    var answerDelay = 20...120
    /// The delay before the first announcement on an interface, in milliseconds.
    var firstDelay = 0...200
  }

  enum Action: Equatable {
    case send(DiscoveryMessage.Kind, interface: UInt32)
    case tell(DiscoveryEvent)
  }

  /// When something is sent on an interface.
  private struct Interface {
    var next: Instant
    var last: Instant?
    var sent = 0
  }

  private struct Record {
    var peer: DiscoveredPeer
    /// Until when each address counts.
    var ends: [IPAddress: Instant] = [:]
  }

  let id: UInt64
  let service: DiscoveredService?
  let settings: Settings
  /// Chooses a number; tests choose themselves.
  let choose: @Sendable (ClosedRange<Int>) -> Int
  private var interfaces: [UInt32: Interface] = [:]
  private var records: [UInt64: Record] = [:]
  /// No address ends before this.
  private var firstEnd: Instant?

  init(
    id: UInt64, service: DiscoveredService?, settings: Settings = .init(),
    choose: @escaping @Sendable (ClosedRange<Int>) -> Int = { .random(in: $0) }
  ) {
    (self.id, self.service, self.settings, self.choose) = (id, service, settings, choose)
  }

  var peers: [DiscoveredPeer] { records.values.map(\.peer) }

  /// When ``due(at:)`` has something to do; `nil` for never.
  var next: Instant? { (interfaces.values.map(\.next) + [firstEnd].compactMap { $0 }).min() }

  func message(_ kind: DiscoveryMessage.Kind) -> DiscoveryMessage {
    kind == .announcement
      ? DiscoveryMessage(kind, from: id, lifetime: settings.lifetime, service: service)
      : DiscoveryMessage(kind, from: id)
  }

  /// Notes which interfaces there are now. On a new one the program introduces itself. Peers behind one that is gone expire.
  mutating func use(interfaces new: Set<UInt32>, at now: Instant) {
    interfaces = interfaces.filter { new.contains($0.key) }
    for index in new where interfaces[index] == nil {
      interfaces[index] = Interface(next: now + .milliseconds(choose(settings.firstDelay)))
    }
  }

  /// Returns what is to be done at this time.
  mutating func due(at now: Instant) -> [Action] {
    var actions: [Action] = []
    for (index, interface) in interfaces where interface.next <= now {
      // Datagrams get lost, so it asks three times.
      if interface.sent < 3 { actions.append(.send(.query, interface: index)) }
      if service != nil { actions.append(.send(.announcement, interface: index)) }
      // The programs of a network must not fall into step.
      let third = Int(settings.lifetime) * 1000 / 3
      let wait =
        interface.sent < 3 ? Duration.seconds(1 << interface.sent) : .milliseconds(choose(third * 3 / 4...third))
      interfaces[index] = Interface(next: now + min(wait, .milliseconds(third)), last: now, sent: interface.sent + 1)
    }
    if let firstEnd, firstEnd <= now { actions += expire(at: now) }
    return actions
  }

  /// Receives a datagram.
  mutating func receive(_ bytes: [UInt8], from address: IPAddress, on index: UInt32, at now: Instant) -> [Action] {
    guard let message = DiscoveryMessage(parsing: bytes), message.sender != id else { return [] }
    switch message.kind {
    case .query:
      guard service != nil, let interface = interfaces[index] else { return [] }
      let answer = now + .milliseconds(choose(settings.answerDelay))
      let earliest = max(answer, interface.last.map { $0 + settings.pause } ?? answer)
      interfaces[index]?.next = min(interface.next, earliest)
      return []
    case .announcement:
      guard let service = message.service else { return [] }
      let end = now + .seconds(Int(min(message.lifetime, settings.longestLifetime)))
      return note(message.sender, service, at: address, until: end).map { [.tell($0)] } ?? []
    case .goodbye:
      // Only from where the peer was heard.
      guard let record = records[message.sender], record.ends[address] != nil else { return [] }
      records[message.sender] = nil
      return [.tell(.lost(record.peer))]
    }
  }

  private mutating func note(
    _ id: UInt64, _ service: DiscoveredService, at address: IPAddress, until end: Instant
  ) -> DiscoveryEvent? {
    var record = records[id] ?? Record(peer: DiscoveredPeer(id: id, service: service))
    if record.ends[address] == nil {
      let neighbours = records.values.count { $0.ends[address] != nil }
      guard record.ends.count < settings.addresses, neighbours < settings.peersPerAddress else { return nil }
      if records[id] == nil, records.count >= settings.peers { return nil }
    }
    record.ends[address] = end
    firstEnd = min(firstEnd ?? end, end)
    record.peer.service = service
    record.peer.addresses = Self.addresses(record.ends, port: service.port)
    let old = records.updateValue(record, forKey: id)
    if old == nil { return .found(record.peer) }
    return old?.peer == record.peer ? nil : .changed(record.peer)
  }

  private mutating func expire(at now: Instant) -> [Action] {
    var actions: [Action] = []
    for (id, var record) in records where record.ends.values.contains(where: { $0 <= now }) {
      record.ends = record.ends.filter { $0.value > now }
      let peer = record.peer
      record.peer.addresses = Self.addresses(record.ends, port: peer.service.port)
      records[id] = record.ends.isEmpty ? nil : record
      actions.append(.tell(record.ends.isEmpty ? .lost(peer) : .changed(record.peer)))
    }
    firstEnd = records.values.flatMap(\.ends.values).min()
    return actions
  }

  private static func addresses(_ ends: [IPAddress: Instant], port: UInt16) -> [SocketAddress] {
    ends.keys.map { $0.socketAddress(port: port) }.sorted { "\($0)" < "\($1)" }
  }
}
