import ActorSockets
import ActorSocketsTLS
import Synchronization

/// Trusts the public key that a server shows at the first connection, and refuses another key of that server later, as ssh does.
///
/// A certificate that the system trusts is accepted without this check.
final class KnownServers: Sendable {
  struct Changed: Error {
    let server: String
  }

  private let keys: Mutex<[String: [UInt8]]>

  /// - Parameter keys: The hashes of the public keys, by name: the ``keysByName`` of an earlier run.
  init(_ keys: [String: [UInt8]] = [:]) { self.keys = Mutex(keys) }

  /// The keys to store for the next run.
  var keysByName: [String: [UInt8]] { keys.withLock { $0 } }

  /// Makes a context whose connections check their servers in this way.
  func makeContext() throws -> TLSContext {
    var configuration = TLSConfiguration()
    configuration.verification = .custom { [self] peer in try isKnown(peer) }
    return try TLSContext(configuration)
  }

  private func isKnown(_ peer: TLSPeer) throws -> Bool {
    if peer.verdict.isTrusted { return true }
    guard case .client(let name) = peer.role, let key = peer.certificate?.publicKeySHA256 else { return false }
    // The verification closure is async, so it could also ask a person here.
    let known = keys.withLock { keys in
      if keys[name] == nil { keys[name] = key }
      return keys[name]
    }
    if known != key { throw Changed(server: name) }
    return true
  }
}
