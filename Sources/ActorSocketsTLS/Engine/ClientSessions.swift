internal import COpenSSL
internal import SocketSystem

/// What a client has to resume sessions with, by the server's name.
///
/// Only sessions whose server was trusted get here, and only connections of the same context take them.
final class ClientSessions: Sendable {
  fileprivate struct Store {
    var sessions: [ServerName: [OpenSSLObject]] = [:]
    /// The names in the order in which they came, the oldest first.
    var order: [ServerName] = []
    var count = 0
  }

  private let store = Guarded(Store())
  private let limit: Int
  /// A server sends two, mostly, and connections may be made at the same time.
  private static let limitForName = 4

  init(limit: Int) { self.limit = limit }

  var count: Int { store.withLock { $0.count } }

  func removeAll() { store.withLock { $0 = Store() } }

  /// Keeps a session. If there are too many, the name that came first goes.
  func add(_ session: OpenSSLObject, for name: ServerName) {
    guard limit > 0 else { return }
    store.withLock { store in
      if store.sessions[name] == nil { store.order.append(name) }
      store.sessions[name, default: []].append(session)
      store.count += 1
      if store.sessions[name, default: []].count > Self.limitForName {
        store.sessions[name]?.removeFirst()
        store.count -= 1
      }
      while store.count > limit { store.removeOldest() }
    }
  }

  /// Takes the newest session for a name. One of TLS 1.3 is good for one connection, so that nobody can tell by it that
  /// two are of the same client (RFC 8446, appendix C.4); one of TLS 1.2 stays.
  func take(for name: ServerName) -> OpenSSLObject? {
    store.withLock { store in
      guard let session = store.sessions[name]?.last else { return nil }
      // SAFETY: the session lives during the call.
      let isReusable = unsafe SSL_SESSION_get_protocol_version(session.pointer) < TLS1_3_VERSION
      if !isReusable {
        store.sessions[name]?.removeLast()
        store.count -= 1
        if store.sessions[name]?.isEmpty ?? false { store.remove(name) }
      }
      return session
    }
  }
}

extension ClientSessions.Store {
  fileprivate mutating func removeOldest() {
    if let oldest = order.first { remove(oldest) } else { count = 0 }
  }

  fileprivate mutating func remove(_ name: ServerName) {
    count -= sessions.removeValue(forKey: name)?.count ?? 0
    order.removeAll { $0 == name }
  }
}
