import ActorSockets
import ActorSocketsTLS

extension TLSSession {
  /// What was agreed on, in a line for people: version, cipher, ALPN, who the peer is, and whether that was verified.
  var summary: String {
    var parts = ["\(version)", cipherSuite, applicationProtocol.map { "ALPN \(AddressError.quote($0))" } ?? "no ALPN"]
    if isResumed { parts.append("resumed") }
    parts.append(peerCertificate.map { "peer \(AddressError.quote($0.subject))" } ?? "peer without a certificate")
    switch verdict {
    case .trusted: parts.append("verified")
    case .untrusted(let error): parts.append("NOT verified: \(error.code)")
    case .noCertificate: break
    }
    return parts.joined(separator: ", ")
  }
}

extension TLSConnection {
  /// Prints what was agreed on, if the options say so.
  func announce(_ options: TLSOptions) async throws {
    if !options.isVerbose { return }
    let name = remoteAddress.map { $0.isUnix ? "" : "\($0): " } ?? ""
    StandardError.write(line: "sockcat: \(name)\(try await session.summary)")
  }
}
