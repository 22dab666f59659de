import ActorSocketsTLS
import ByteText
import Foundation

/// The settings of the proxy, from a file of lines:
///
/// ```
/// listen 0.0.0.0:443
/// site www.example.org /etc/proxy/www.pem /etc/proxy/www.key
///   origin 127.0.0.1:8001
///   origin unix:/run/www.sock
///   check /health
/// ```
struct ProxySettings: Sendable {
  struct SiteSettings: Sendable {
    var name: String
    var certificateFile: String
    var keyFile: String
    var origins: [Endpoint] = []
    /// The path of the page that is asked for to find out whether an origin is up; `nil` to assume so.
    var check: String?
  }

  struct Invalid: Error, CustomStringConvertible {
    let description: String
  }

  var listen = Endpoint.port(8443)
  var sites: [SiteSettings] = []

  init(file: String) throws { try self.init(parsing: String(contentsOfFile: file, encoding: .utf8)) }

  init(parsing text: String) throws {
    for (index, line) in ByteText(text).parts(at: "\n").enumerated() {
      let words = line.bytes.split { [9, 13, 32].contains($0) }.map { ByteText($0) }
      if words.isEmpty || words[0].begins(with: "#") { continue }
      do {
        try add(words)
      } catch {
        throw Invalid(description: "line \(index + 1): \(error)")
      }
    }
    for site in sites where site.origins.isEmpty { throw Invalid(description: "the site \(site.name) has no origin") }
    guard !sites.isEmpty else { throw Invalid(description: "there is no site") }
  }

  private mutating func add(_ line: [ByteText]) throws {
    let words = line.map(\.description)
    switch (words[0], words.count) {
    case ("listen", 2): listen = try Endpoint(parsing: words[1])
    case ("site", 4):
      let name = line[1].hostName.description
      if sites.contains(where: { ByteText($0.name).equals(name) }) {
        throw Invalid(description: "the site \(name) is there already")
      }
      sites.append(SiteSettings(name: name, certificateFile: words[2], keyFile: words[3]))
    case ("origin", 2) where !sites.isEmpty: sites[sites.count - 1].origins.append(try Endpoint(parsing: words[1]))
    case ("check", 2) where !sites.isEmpty: sites[sites.count - 1].check = words[1]
    default: throw Invalid(description: "\"\(words.joined(separator: " "))\" is no setting, or is not below a site")
    }
  }

  /// Reads the certificates and keys of all sites.
  func readIdentities() throws -> [String: TLSIdentity] {
    var identities: [String: TLSIdentity] = [:]
    for site in sites {
      identities[site.name] = try TLSIdentity(certificateFile: site.certificateFile, keyFile: site.keyFile)
    }
    return identities
  }

  /// Makes the context of the clients' connections. A client that asks for another name than those of the sites gets no certificate.
  func makeContext() throws -> TLSContext {
    var configuration = TLSConfiguration(applicationProtocols: ["http/1.1"])
    configuration.identities = try readIdentities()
    // A message of HTTP says where it ends. Many clients end the connection without saying so in TLS.
    configuration.allowsTruncation = true
    return try TLSContext(configuration)
  }
}
