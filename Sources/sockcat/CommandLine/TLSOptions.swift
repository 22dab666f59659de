import ActorSockets
import ActorSocketsTLS

/// Each side has some options that the other does not have.
struct TLSOptions: Equatable {
  enum Side { case client, server }

  let side: Side
  var isOn = false
  var startTLS: StartTLS?
  /// From `--ca` or `--client-ca`.
  var authorities: String?
  var serverName: String?
  var applicationProtocols: [String] = []
  var certificate: String?
  var key: String?
  var isInsecure = false

  init(_ side: Side) { self.side = side }

  var isWanted: Bool { isOn || startTLS != nil }
}

// MARK: - The command line

extension TLSOptions {
  static let clientOptions: [Option<TLSOptions>] = [
    Option(
      "--tls",
      "encrypts the connection, and continues only if the server's certificate is valid for the name in ENDPOINT"
    ) {
      $0.isOn = true
    },
    Option(
      "--starttls", .choice(StartTLS.words),
      """
      encrypts as --tls does, after the plain-text beginning of this protocol. Standard input is sent only when the \
      connection is encrypted
      """
    ) { $0.startTLS = try $1.choice() },
    Option("--ca", .file, "trusts the authorities in FILE instead of the system's") { $0.authorities = $1.text },
    Option("--server-name", .named("NAME"), "requires a certificate for NAME, if that is not the name in ENDPOINT") {
      $0.serverName = $1.text
    },
    alpn("offers these application protocols, preferred first"),
    Option("--cert", .file, "shows this certificate to servers that ask for one") { $0.certificate = $1.text },
    key,
    Option(
      "--insecure", "accepts any certificate: anyone on the network path can read and change everything"
    ) { $0.isInsecure = true },
  ]

  static let serverOptions: [Option<TLSOptions>] = [
    Option("--tls", "encrypts all connections; it needs --cert") { $0.isOn = true },
    Option("--cert", .file, "has the server's certificate, followed by the intermediate certificates") {
      $0.certificate = $1.text
    },
    key,
    Option("--client-ca", .file, "requires client certificates from the authorities in FILE") {
      $0.authorities = $1.text
    },
    alpn("supports these application protocols, preferred first; clients that offer none of them are refused"),
  ]

  private static let key = Option<TLSOptions>(
    "--key", .file, "has the certificate's key, if that is not in the same file"
  ) { $0.key = $1.text }

  private static func alpn(_ text: String) -> Option<TLSOptions> {
    Option("--alpn", .named("A,B"), text) { $0.applicationProtocols = try $1.protocols() }
  }

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

  /// The first option given that has no meaning without TLS.
  private var firstOption: String? {
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

  func name(of endpoint: Endpoint) -> String {
    if let serverName { return serverName }
    // If the endpoint has no name, `--insecure` is required, so no name is checked.
    return endpoint.serverName.isEmpty ? "localhost" : endpoint.serverName
  }
}

extension Words.Argument {
  fileprivate func protocols() throws(Failure) -> [String] {
    let names = text.split(separator: ",", omittingEmptySubsequences: false).map(String.init)
    guard names.allSatisfy({ !$0.isEmpty }) else {
      throw .usage("\(option) takes names of protocols with commas between them, not \(text.debugDescription)")
    }
    return names
  }
}
