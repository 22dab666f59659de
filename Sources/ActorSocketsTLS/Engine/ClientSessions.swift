internal import COpenSSL
internal import SocketSystem

/// What a client has to resume sessions with, by the server's name.
///
/// Only sessions whose server was trusted get here, and only connections of the same context take them.
final class ClientSessions: Sendable {
  private let store = Guarded(Store())
  private let limit: Int
  private let lifetime: Duration

  /// - Parameters:
  ///   - limit: How many are kept.
  ///   - lifetime: For how long each is: as long, it stands for a verification that was done.
  init(limit: Int, lifetime: Duration) {
    self.limit = limit
    self.lifetime = lifetime
  }

  var count: Int { store.withLock { $0.count } }

  func removeAll() { store.withLock { $0 = Store() } }

  /// Keeps a session. If there are too many, the name that came first goes.
  func add(_ session: OpenSSLObject, for name: ServerName, at now: Int64 = continuousNanoseconds()) {
    guard limit > 0 else { return }
    store.withLock { store in
      store.add(Session(object: session, start: now), for: name)
      while store.count > limit { store.removeOldest() }
      assert(store.count == store.entryCount, "the count of sessions is that of all entries")
    }
  }

  /// Takes the newest session for a name that is still good: OpenSSL gives up those whose connection ended without a
  /// close_notify. One of TLS 1.3 is good for one connection, so that nobody can tell by it that
  /// two are of the same client (RFC 8446, appendix C.4); one of TLS 1.2 stays.
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
  /// When it was made, in nanoseconds of a clock that only goes forward.
  let start: Int64
}

/// Sessions by name, and the order in which the names came.
private struct Store {
  private struct Entry {
    var sessions: [Session] = []
    let age: Int
  }

  private var entries: [ServerName: Entry] = [:]
  /// The oldest first. Those whose entry is gone, or is another by now, stay until they are in the way.
  private var order: [(name: ServerName, age: Int)] = []
  private var nextAge = 0
  private(set) var count = 0
  /// A server sends two, mostly, and connections may be made at the same time.
  private static let limitForName = 4

  /// What `count` has to be, counted.
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

  mutating func removeOldest() {
    guard let oldest = order.first(where: isCurrent) else { return count = 0 }
    count -= entries.removeValue(forKey: oldest.name)?.sessions.count ?? 0
    order = order.filter(isCurrent)
  }

  private mutating func makeEntry(for name: ServerName) -> Entry {
    if order.count > 2 * entries.count + 16 { order = order.filter(isCurrent) }
    nextAge += 1
    order.append((name, nextAge))
    return Entry(age: nextAge)
  }

  private func isCurrent(_ place: (name: ServerName, age: Int)) -> Bool { entries[place.name]?.age == place.age }
}
