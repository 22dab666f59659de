import ActorSockets
import ActorSocketsTLS
import Synchronization

/// Trusts the certificate that a server shows at the first meeting, as ssh does, and no other one with its name afterwards.
///
/// A certificate that the system trusts is taken as it is.
final class KnownServers: Sendable {
  struct Changed: Error {
    let server: String
  }

  private let keys: Mutex<[String: [UInt8]]>

  /// - Parameter keys: The hashes of the public keys, by name, as ``keysByName`` had them.
  init(_ keys: [String: [UInt8]] = [:]) { self.keys = Mutex(keys) }

  /// What to keep for the next time.
  var keysByName: [String: [UInt8]] { keys.withLock { $0 } }

  /// Makes the context for connections to these servers.
  func makeContext() throws -> TLSContext {
    var configuration = TLSConfiguration()
    configuration.verification = .custom { [self] peer in try isKnown(peer) }
    return try TLSContext(configuration)
  }

  private func isKnown(_ peer: TLSPeer) throws -> Bool {
    if peer.verdict.isTrusted { return true }
    guard case .client(let name) = peer.role, let key = peer.certificate?.publicKeySHA256 else { return false }
    // This place could also ask a person, who may take their time: it is an async closure.
    let known = keys.withLock { keys in
      if keys[name] == nil { keys[name] = key }
      return keys[name]
    }
    if known != key { throw Changed(server: name) }
    return true
  }
}
