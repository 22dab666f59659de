import ActorSockets
import ActorSocketsTLS

extension TLSSession {
  /// One line for people.
  var summary: String {
    var parts = ["\(version)", cipherSuite, applicationProtocol.map { "ALPN \(AddressError.quote($0))" } ?? "no ALPN"]
    if isResumed { parts.append("resumed") }
    parts.append(peerCertificate.map { "peer \(AddressError.quote($0.subject))" } ?? "peer without a certificate")
    switch verdict {
    case .trusted: parts.append("verified")
    case .untrusted(let error): parts.append("NOT verified: \(error.code)")
    case .noCertificate: break
    @unknown default: parts.append("\(verdict)")
    }
    return parts.joined(separator: ", ")
  }
}
