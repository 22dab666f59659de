internal import COpenSSL
internal import SocketSystem

/// Sessions are added only if the handshake accepted the server, and only connections of the same context take them.
/// Removing all begins a new generation: sessions that connections of an earlier one bring later are not added.
final class ClientSessions: Sendable {
  private let store = Locked(Store())
  private let limit: Int
  private let lifetime: Duration

  /// For the time `lifetime`, a resumption replaces a verification of the server.
  init(limit: Int, lifetime: Duration) {
    self.limit = limit
    self.lifetime = lifetime
  }

  var count: Int { store.withLock { $0.count } }

  var generation: Int { store.withLock { $0.generation } }

  func removeAll() { store.withLock { $0 = Store(generation: $0.generation + 1) } }

  /// If there are too many sessions, the name that was added first loses all of its sessions; if that is `name`, only its oldest.
  /// `generation` is that of the session's connection; `nil` is the current one. `now` is in nanoseconds of a monotonic clock.
  func add(
    _ session: OpenSSLObject, for name: ServerName, from generation: Int? = nil, at now: Int64 = continuousNanoseconds()
  ) {
    guard limit > 0 else { return }
    store.withLock { store in
      guard generation == nil || generation == store.generation else { return }
      store.add(Session(object: session, start: now), for: name)
      while store.count > limit { store.removeOldest(afterAdding: name) }
      assert(store.count == store.entryCount, "the count of sessions is that of all entries")
    }
  }

  /// Returns the newest usable session. OpenSSL marks a session as not resumable if its connection ended without
  /// close_notify. A session of TLS 1.3 is removed, because it may be used only once: otherwise an observer could tell
  /// that two connections come from the same client (RFC 8446, appendix C.4).
  func take(for name: ServerName, at now: Int64 = continuousNanoseconds()) -> OpenSSLObject? {
    store.withLock { store in
      while let session = store.newest(for: name) {
        // SAFETY: the session lives during the calls.
        let pointer = unsafe session.object.pointer
        let isYoung = Duration.nanoseconds(now - session.start) < lifetime
        let isGood = unsafe SSL_SESSION_is_resumable(pointer) == 1 && isYoung
        let isReusable = unsafe SSL_SESSION_get_protocol_version(pointer) < TLS1_3_VERSION
        if !isGood || !isReusable { store.removeNewest(for: name) }
        if isGood { return session.object }
      }
      return nil
    }
  }
}

private struct Session {
  let object: OpenSSLObject
  /// In nanoseconds of a monotonic clock.
  let start: Int64
}

private struct Store {
  private struct Entry {
    var sessions: [Session] = []
    let age: Int
  }

  let generation: Int
  private var entries: [ServerName: Entry] = [:]
  /// Oldest first. Entries that were removed or replaced stay here until the list is cleaned up.
  private var order: [(name: ServerName, age: Int)] = []
  private var nextAge = 0
  private(set) var count = 0
  /// Servers usually send two sessions, and a client may open several connections at a time.
  private static let limitForName = 4

  init(generation: Int = 0) { self.generation = generation }

  var entryCount: Int { entries.values.reduce(0) { $0 + $1.sessions.count } }

  mutating func add(_ session: Session, for name: ServerName) {
    var entry = entries[name] ?? makeEntry(for: name)
    entry.sessions.append(session)
    count += 1
    if entry.sessions.count > Self.limitForName {
      entry.sessions.removeFirst()
      count -= 1
    }
    entries[name] = entry
  }

  func newest(for name: ServerName) -> Session? { entries[name]?.sessions.last }

  mutating func removeNewest(for name: ServerName) {
    guard entries[name]?.sessions.popLast() != nil else { return }
    count -= 1
    if entries[name]?.sessions.isEmpty ?? false { entries[name] = nil }
  }

  mutating func removeOldest(afterAdding name: ServerName) {
    guard let oldest = order.first(where: isCurrent) else { return count = 0 }
    if oldest.name == name {
      entries[name]?.sessions.removeFirst()
      count -= 1
      return
    }
    count -= entries.removeValue(forKey: oldest.name)?.sessions.count ?? 0
    order = order.filter(isCurrent)
  }

  private mutating func makeEntry(for name: ServerName) -> Entry {
    if order.count > 2 * entries.count + 16 { order = order.filter(isCurrent) }
    nextAge += 1
    order.append((name, nextAge))
    return Entry(age: nextAge)
  }

  private func isCurrent(_ key: (name: ServerName, age: Int)) -> Bool { entries[key.name]?.age == key.age }
}
