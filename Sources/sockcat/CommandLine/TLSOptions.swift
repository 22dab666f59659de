import ActorSockets
import ActorSocketsTLS

/// The options about TLS. Clients and servers share this type, and each has some options of its own.
struct TLSOptions: Equatable {
  /// The side that the options are for. Each side has options that the other does not have.
  enum Side { case client, server }

  let side: Side
  /// Whether `--tls` was given.
  var isOn = false
  /// The protocol to speak in plain text before the handshake.
  var startTLS: StartTLS?
  /// The file with the trusted authorities: `--ca` or `--client-ca`.
  var authorities: String?
  var serverName: String?
  var applicationProtocols: [String] = []
  var certificate: String?
  var key: String?
  /// Whether `--insecure` was given.
  var isInsecure = false
  /// Whether the negotiated parameters are printed.
  var isVerbose = false

  init(_ side: Side) { self.side = side }

  /// Whether the connection is to be encrypted.
  var isWanted: Bool { isOn || startTLS != nil }
}

// MARK: - The command line

extension TLSOptions {
  /// Parses an option of the command line.
  ///
  /// - Returns: Whether the option is about TLS.
  mutating func take(_ word: Words.Word, _ words: inout Words) throws(Failure) -> Bool {
    switch (word, side) {
    case (.option("--tls", nil), _): isOn = true
    case (.option("-v", nil), _): isVerbose = true
    case (.option("--alpn", let value), _):
      applicationProtocols = try Self.protocols(try words.value(of: "--alpn", value))
    case (.option("--cert", let value), _): certificate = try words.value(of: "--cert", value)
    case (.option("--key", let value), _): key = try words.value(of: "--key", value)
    case (.option("--ca", let value), .client): authorities = try words.value(of: "--ca", value)
    case (.option("--client-ca", let value), .server): authorities = try words.value(of: "--client-ca", value)
    case (.option("--server-name", let value), .client): serverName = try words.value(of: "--server-name", value)
    case (.option("--insecure", nil), .client): isInsecure = true
    case (.option("--starttls", let value), .client):
      startTLS = try Self.startTLS(try words.value(of: "--starttls", value))
    default: return false
    }
    return true
  }

  private static func protocols(_ text: String) throws(Failure) -> [String] {
    let names = text.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
    guard names.allSatisfy({ !$0.isEmpty }) else {
      throw .usage("--alpn takes names of protocols with commas between them, not \(text.debugDescription)")
    }
    return names
  }

  private static func startTLS(_ text: String) throws(Failure) -> StartTLS {
    guard let plain = StartTLS(rawValue: text) else {
      throw .usage("--starttls takes smtp, imap or postgres, not \(text.debugDescription)")
    }
    return plain
  }

  /// Throws if two options contradict each other.
  ///
  /// - Parameter endpoint: The endpoint that a client connects to.
  /// - Throws: `Failure`, which names the options.
  func check(connectingTo endpoint: Endpoint? = nil) throws(Failure) {
    if !isWanted, let option = firstOption {
      throw .usage("\(option) is about TLS: it needs --tls\(side == .client ? " or --starttls" : "")")
    }
    if !isWanted { return }
    if key != nil, certificate == nil { throw .usage("--key needs the certificate that it belongs to: --cert") }
    if side == .server, certificate == nil {
      throw .usage("a server with --tls needs a certificate and its key: --cert and --key")
    }
    if isInsecure, authorities != nil { throw .usage("--insecure verifies nothing, so there is no use for --ca") }
    if endpoint?.isUnix == true, serverName == nil, !isInsecure {
      throw .usage("a unix endpoint has no name to compare with the certificate: give one with --server-name")
    }
  }

  /// An option that has no meaning without TLS, or `nil` if no such option was given.
  private var firstOption: String? {
    if isVerbose { return "-v" }
    if !applicationProtocols.isEmpty { return "--alpn" }
    if certificate != nil { return "--cert" }
    if key != nil { return "--key" }
    if authorities != nil { return side == .client ? "--ca" : "--client-ca" }
    if serverName != nil { return "--server-name" }
    return isInsecure ? "--insecure" : nil
  }
}

// MARK: - What they make

extension TLSOptions {
  /// Creates the context for all connections.
  ///
  /// - Parameter handshakeTimeout: The most time for a handshake; `nil` for the default.
  /// - Returns: The context; `nil` without TLS.
  /// - Throws: `Failure` with the status `inputOutput` for a file that cannot be used, otherwise with the status
  ///   `usage`.
  func makeContext(handshakeTimeout: Duration? = nil) throws -> TLSContext? {
    if !isWanted { return nil }
    if isInsecure {
      StandardError.write(
        line:
          "sockcat: warning: --insecure verifies nothing, so anyone on the network path can read and change everything")
    }
    do {
      var configuration = TLSConfiguration(applicationProtocols: applicationProtocols)
      if let certificate { configuration.identity = try TLSIdentity(certificateFile: certificate, keyFile: key) }
      if let authorities {
        configuration.trustRoots = [.file(authorities)]
        if side == .server { configuration.clientCertificates = .required }
      }
      if isInsecure { configuration.verification = .dangerouslyNone }
      if let handshakeTimeout { configuration.handshakeTimeout = handshakeTimeout }
      return try TLSContext(configuration)
    } catch {
      switch error.code {
      case .invalidConfiguration, .invalidServerName, .noIdentity: throw Failure(.usage, error.description)
      default: throw Failure(.inputOutput, error.description)
      }
    }
  }

  /// Returns the name that the server's certificate must be for.
  func name(of endpoint: Endpoint) -> String {
    if let serverName { return serverName }
    // If the endpoint has no name, `--insecure` is required, so no name is checked.
    return endpoint.serverName.isEmpty ? "localhost" : endpoint.serverName
  }
}
