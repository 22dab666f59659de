import ActorSockets

/// Connects through the company's proxy, and tries again for up to five minutes.
func connectPatiently(to server: Endpoint, through proxy: Proxy) async throws -> TCPConnection {
  var configuration = TCPConnection.Configuration()
  configuration.proxy = proxy
  configuration.retry = TCPConnection.Retry()
  configuration.retry?.maximumTries = 100
  configuration.connectTimeout = .seconds(300)
  return try await TCPConnection.connect(to: server, configuration: configuration)
}

/// Returns the proxy that a program was told to use, with the password from elsewhere.
func proxy(at address: String, password: String) throws -> Proxy {
  .socks5(try Endpoint(parsing: address), credentials: Proxy.Credentials(username: "me", password: password))
}

/// Listens for connections that two balancers forward.
func listenBehindBalancers(on endpoint: Endpoint, at networks: [IPNetwork]) throws -> TCPListener {
  var configuration = TCPListener.Configuration()
  configuration.proxyProtocol = ProxyProtocol(.required, from: networks)
  return try TCPListener.bind(to: endpoint, configuration: configuration)
}

/// Greets each client with its own address, not that of the balancer.
func greetClients(_ listener: TCPListener) async throws {
  try await listener.serve { connection in
    let client = connection.remoteAddress.map { "\($0)" } ?? "unknown"
    try await connection.write(utf8: "hello, \(client)\n")
  }
}

/// Forwards a connection to a server, and tells it whose connection this is.
func forward(_ client: TCPConnection, to server: Endpoint) async throws {
  var configuration = TCPConnection.Configuration()
  configuration.proxyHeader = ProxyHeader(forwarding: client)
  let connection = try await TCPConnection.connect(to: server, configuration: configuration)
  try await relay(between: client, and: connection)
}
