import ActorSockets
import ActorSocketsConfiguration
import Configuration
import Testing

@Suite struct ConfigurationTests {
  private func environment(_ values: [String: String]) -> ConfigReader {
    ConfigReader(provider: EnvironmentVariablesProvider(environmentVariables: values))
  }

  @Test func `Without values, everything has its default`() async throws {
    let config = environment([:])
    let listener = try await TCPListener.Configuration(from: config, at: "server")
    let defaults = TCPListener.Configuration()
    #expect(listener.backlog == defaults.backlog && listener.permissions == nil && listener.proxyProtocol == nil)
    #expect(listener.connection.liveness == defaults.connection.liveness && listener.connection.retry == nil)
    #expect(listener.connection.noDelay && listener.connection.source == nil)
    #expect(try await ServeLimits(from: config) == ServeLimits())
    #expect(try await Drain(from: config) == .within(.seconds(30)))
  }

  @Test func `Every setting of a listener is read`() async throws {
    let config = environment([
      "SERVER_BACKLOG": "7", "SERVER_REUSE_ADDRESS": "false", "SERVER_REUSE_PORT": "true", "SERVER_IPV6ONLY": "true",
      "SERVER_PERMISSIONS": "660", "SERVER_PROXY_PROTOCOL_POLICY": "required",
      "SERVER_PROXY_PROTOCOL_TRUSTED_NETWORKS": "10.0.0.0/8,::1", "SERVER_PROXY_PROTOCOL_TIME_LIMIT": "2.5",
      "SERVER_PROXY_PROTOCOL_MAXIMUM_LENGTH": "100", "SERVER_CONNECTION_NO_DELAY": "false",
      "SERVER_LIMITS_CONNECTIONS": "99", "SERVER_LIMITS_CONNECTIONS_PER_PEER": "3", "SERVER_DRAIN_TIME": "0.25",
      "SERVER_DRAIN_IDLE_READS": "endAll", "SERVER_LISTEN": "127.0.0.1:7777",
    ])
    let listener = try await TCPListener.Configuration(from: config, at: "server")
    #expect(listener.backlog == 7 && !listener.reuseAddress && listener.reusePort && listener.ipv6Only)
    #expect(listener.permissions == 0o660 && !listener.connection.noDelay)
    let proxy = try #require(listener.proxyProtocol)
    #expect(proxy.policy == .required && proxy.timeLimit == .seconds(2.5) && proxy.maximumLength == 100)
    #expect(proxy.trustedNetworks.map(\.description) == ["10.0.0.0/8", "::1/128"])
    let limits = try await ServeLimits(from: config, at: "server.limits")
    #expect(limits == ServeLimits(connections: 99, connectionsPerPeer: 3))
    let drain = try await Drain(from: config, at: "server.drain")
    #expect(drain == .within(.milliseconds(250), idleReads: .endAll))
    #expect(try await Endpoint(from: config, at: "server.listen") == .host("127.0.0.1", port: 7777))
  }

  @Test func `Every setting of a connection is read`() async throws {
    let values: [AbsoluteConfigKey: ConfigValue] = [
      AbsoluteConfigKey(["connectTimeout"]): 1.5, AbsoluteConfigKey(["addressPreference"]): "preferIPv4",
      AbsoluteConfigKey(["attemptDelay"]): 0.1, AbsoluteConfigKey(["source"]): "eth0:0",
      AbsoluteConfigKey(["device"]): "eth1", AbsoluteConfigKey(["closeTimeout"]): 2.0,
      AbsoluteConfigKey(["writeBudget"]): 1000, AbsoluteConfigKey(["onWriteOverflow"]): "abort",
      AbsoluteConfigKey(["noDelay"]): false, AbsoluteConfigKey(["closesOnEndOfStream"]): true,
      AbsoluteConfigKey(["pendingDescriptorLimit"]): 4, AbsoluteConfigKey(["onTimeout"]): "close",
      AbsoluteConfigKey(["keepAlive", "idle"]): 20.0, AbsoluteConfigKey(["keepAlive", "interval"]): 5.0,
      AbsoluteConfigKey(["keepAlive", "count"]): 3, AbsoluteConfigKey(["unacknowledgedTimeout"]): 9.0,
      AbsoluteConfigKey(["idleTimeout"]): 300.0, AbsoluteConfigKey(["retry", "maximumTries"]): 2,
      AbsoluteConfigKey(["retry", "firstDelay"]): 0.5, AbsoluteConfigKey(["retry", "maximumDelay"]): 3.0,
      AbsoluteConfigKey(["retry", "tryTimeout"]): 4.0,
    ]
    let config = ConfigReader(provider: InMemoryProvider(values: values))
    let connection = try await TCPConnection.Configuration(from: config)
    #expect(connection.connectTimeout == .seconds(1.5) && connection.addressPreference == .preferIPv4)
    #expect(connection.attemptDelay == .milliseconds(100) && connection.source == .host("eth0", port: 0))
    #expect(connection.device == "eth1" && connection.closeTimeout == .seconds(2))
    #expect(connection.writeBudget == 1000 && connection.onWriteOverflow == .abort && !connection.noDelay)
    #expect(connection.closesOnEndOfStream && connection.pendingDescriptorLimit == 4 && connection.onTimeout == .close)
    let keepAlive = TCPConnection.Liveness.KeepAlive(idle: .seconds(20), interval: .seconds(5), count: 3)
    #expect(
      connection.liveness
        == .init(keepAlive: keepAlive, unacknowledgedTimeout: .seconds(9), idleTimeout: .seconds(300)))
    let retry = try #require(connection.retry)
    #expect(retry.maximumTries == 2 && retry.firstDelay == .milliseconds(500))
    #expect(retry.maximumDelay == .seconds(3) && retry.tryTimeout == .seconds(4))
  }

  @Test func `Keep-alive can be turned off`() async throws {
    let config = environment(["KEEP_ALIVE_ENABLED": "false", "KEEP_ALIVE_COUNT": "3"])
    #expect(try await TCPConnection.Configuration(from: config).liveness.keepAlive == nil)
  }

  @Test(arguments: [
    ("server.backlog", "0", "0 is out of range: 1 to 2147483647"),
    ("server.backlog", "many", "a whole number is needed"),
    ("server.reusePort", "perhaps", "true or false is needed"),
    ("server.permissions", "668", "\"668\" is not a number of octal digits from 0 to 777"),
    ("server.permissions", "1777", "\"1777\" is not a number of octal digits from 0 to 777"),
    ("server.proxyProtocol.policy", "never", "\"never\" is none of: required, optional"),
    ("server.proxyProtocol.trustedNetworks", "10.0.0.1/8", "did you mean 10.0.0.0/8?"),
    ("server.connection.connectTimeout", "0", "0.0 is out of range: more than 0, at most 1000000000.0 seconds"),
    ("server.connection.connectTimeout", "soon", "a number of seconds is needed"),
    ("server.connection.connectTimeout", "nan", "nan is out of range"),
    ("server.connection.connectTimeout", "1e30", "1e+30 is out of range"),
    ("server.connection.attemptDelay", "0.001", "0.001 is out of range"),
    ("server.connection.source", "eth0", "the port is missing"),
    ("server.connection.writeBudget", "-1", "-1 is out of range: at least 0"),
    ("server.connection.keepAlive.count", "128", "128 is out of range: 1 to 127"),
    ("server.connection.keepAlive.idle", "0.5", "0.5 is out of range: at least 1.0, at most 32767.0 seconds"),
    ("server.connection.onTimeout", "closes", "\"closes\" is none of: keepOpen, close"),
    ("server.connection.retry.maximumTries", "0", "0 is out of range: at least 1"),
  ])
  func `A wrong value is an error that names the key`(key: String, value: String, reason: String) async throws {
    let config = environment([Self.variable(key): value])
    let error = await #expect(throws: SettingError.self) {
      try await TCPListener.Configuration(from: config, at: "server")
    }
    #expect(error?.key == key)
    #expect(error?.description.hasPrefix("\(key): ") == true && error?.description.contains(reason) == true)
  }

  /// Returns the environment variable of a key.
  private static func variable(_ key: String) -> String {
    key.replacing(/([a-z])([A-Z])/) { "\($0.1)_\($0.2)" }.replacing(".", with: "_").uppercased()
  }

  @Test func `Networks without a policy are an error`() async throws {
    let config = environment(["PROXY_PROTOCOL_TRUSTED_NETWORKS": "10.0.0.0/8"])
    let error = await #expect(throws: SettingError.self) { try await TCPListener.Configuration(from: config) }
    #expect(error?.key == "proxyProtocol.policy")
  }

  @Test func `An endpoint must be there, and be one`() async throws {
    let missing = await #expect(throws: SettingError.self) {
      try await Endpoint(from: environment([:]), at: "server.listen")
    }
    #expect(missing?.description == "server.listen: it is missing")
    let wrong = await #expect(throws: SettingError.self) {
      try await Endpoint(from: environment(["SERVER_LISTEN": "80"]), at: "server.listen")
    }
    #expect(wrong?.key == "server.listen" && wrong?.reason.contains("the port is missing") == true)
  }

  @Test func `A server that is configured serves`() async throws {
    let config = environment([
      "SERVER_LISTEN": "127.0.0.1:0", "SERVER_BACKLOG": "16", "SERVER_CONNECTION_IDLE_TIMEOUT": "60",
    ])
    let listener = try TCPListener.bind(
      to: try await Endpoint(from: config, at: "server.listen"),
      configuration: try await TCPListener.Configuration(from: config, at: "server"))
    #expect(listener.localAddresses.first?.isLoopback == true)
    await listener.close()
  }
}
