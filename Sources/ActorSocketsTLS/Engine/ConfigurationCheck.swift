internal import COpenSSL
internal import SocketSystem

/// OpenSSL's own objections come later, when `ContextSettings` passes the configuration to it.
enum ConfigurationCheck {
  static func check(_ configuration: TLSConfiguration) throws(TLSError) {
    let versions: [TLSVersion] = [.v12, .v13]
    for version in [configuration.minimumVersion, configuration.maximumVersion] where !versions.contains(version) {
      throw invalid("\(version) is not spoken here, only TLS 1.2 and 1.3 are")
    }
    guard configuration.minimumVersion <= configuration.maximumVersion else {
      throw invalid(
        "the oldest version, \(configuration.minimumVersion), is newer than the newest, \(configuration.maximumVersion)"
      )
    }
    guard (0...100).contains(configuration.maximumChainDepth) else {
      throw invalid("the chain depth \(configuration.maximumChainDepth) is not between 0 and 100")
    }
    guard configuration.sessionCacheSize >= 0 else { throw invalid("the session cache has a negative size") }
    guard configuration.keyUpdateLimit >= 8 else {
      throw invalid("a limit of less than 8 key updates would refuse peers that send a few tickets")
    }
    for (name, duration) in [
      ("session lifetime", configuration.sessionLifetime), ("ticket key lifetime", configuration.ticketKeyLifetime),
      ("handshake timeout", configuration.handshakeTimeout),
    ] where duration <= .zero {
      throw invalid("the \(name) is not above zero")
    }
    try CipherLists.check(configuration)
  }

  static func invalid(_ detail: String) -> TLSError { TLSError(.invalidConfiguration, detail: detail) }
}

/// OpenSSL ignores names of ciphers that it does not know, so this checks them one by one.
enum CipherLists {
  static func check(_ configuration: TLSConfiguration) throws(TLSError) {
    OpenSSLErrors.clear()
    // SAFETY: the context is freed here.
    guard let trial = unsafe SSL_CTX_new(TLS_method()) else { throw OpenSSLErrors.take().failure() }
    defer {
      unsafe SSL_CTX_free(trial)
      OpenSSLErrors.clear()
    }
    for (what, list) in [
      ("ciphers", configuration.ciphers.description), ("cipher suites", configuration.cipherSuites),
      ("groups", configuration.groups?.description),
    ] {
      guard let list else { continue }
      guard !list.isEmpty else { throw ConfigurationCheck.invalid("the list of \(what) is empty") }
      guard !list.utf8.contains(0) else { throw ConfigurationCheck.invalid("the list of \(what) has a NUL in it") }
    }
    for name in configuration.cipherSuites?.split(separator: ":") ?? [] {
      guard unsafe SSL_CTX_set_ciphersuites(trial, String(name)) == 1, unsafe hasSuite(trial, String(name)) else {
        throw ConfigurationCheck.invalid("OpenSSL knows no cipher suite \(AddressError.quote(String(name))) of TLS 1.3")
      }
    }
    for name in ciphers(in: configuration.ciphers.description)
    where unsafe SSL_CTX_set_cipher_list(trial, name) != 1 {
      throw ConfigurationCheck.invalid("OpenSSL knows no cipher \(AddressError.quote(name)) of TLS 1.2")
    }
    for name in configuration.groups?.description.split(separator: ":") ?? []
    where unsafe copenssl_SSL_CTX_set1_groups_list(trial, String(name)) != 1 {
      throw ConfigurationCheck.invalid("OpenSSL knows no group \(AddressError.quote(String(name)))")
    }
  }

  private static func hasSuite(_ context: OpaquePointer, _ name: String) -> Bool {
    // SAFETY: the stack belongs to the context, which is the caller's; the names of ciphers are static.
    unsafe elements(of: SSL_CTX_get_ciphers(context)).contains {
      unsafe String(cString: SSL_CIPHER_get_name($0)) == name
    }
  }

  /// The notation is that of openssl-ciphers(1). Leaves out the excluded names, which may be unknown.
  static func ciphers(in list: String) -> [String] {
    list.split { $0 == ":" || $0 == "," || $0 == " " || $0 == ";" }.flatMap { word -> [String] in
      guard let first = word.first, first != "@", first != "!", first != "-" else { return [] }
      return word.drop { $0 == "+" }.split(separator: "+").map(String.init)
    }
  }
}
