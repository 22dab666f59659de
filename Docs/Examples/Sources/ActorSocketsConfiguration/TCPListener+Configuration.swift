public import ActorSockets
public import Configuration

extension TCPListener.Configuration {
  /// Reads the settings of a listener. A setting without a value has its default.
  ///
  /// | key | value | setting |
  /// |---|---|---|
  /// | `backlog` | at least 1 | ``backlog`` |
  /// | `reuseAddress`, `reusePort` | true or false | ``reuseAddress``, ``reusePort`` |
  /// | `permissions` | octal digits, as in `"660"` | ``permissions`` |
  /// | `ipv6Only` | true or false | ``ipv6Only`` |
  /// | `proxyProtocol.policy` | `required` or `optional` | ``proxyProtocol`` |
  /// | `proxyProtocol.trustedNetworks` | a list of networks, as in `10.0.0.0/8` | the same |
  /// | `proxyProtocol.timeLimit` | seconds | the same |
  /// | `proxyProtocol.maximumLength` | bytes, 16 to 16384 | the same |
  /// | `connection.…` | | those of a connection: ``TCPConnection/Configuration`` |
  ///
  /// - Parameters:
  ///   - config: The reader.
  ///   - key: What the keys begin with. Give it here rather than by `scoped(to:)`, so that errors name the whole key.
  /// - Throws: ``SettingError`` if a value is of the wrong kind or out of range.
  public init(from config: ConfigReader, at key: ConfigKey = []) async throws {
    self.init()
    let settings = Settings(config, at: key)
    if let backlog = try await settings.int("backlog", in: 1...Int(Int32.max)) { self.backlog = Int32(backlog) }
    set(&reuseAddress, to: try await settings.bool("reuseAddress"))
    set(&reusePort, to: try await settings.bool("reusePort"))
    set(&ipv6Only, to: try await settings.bool("ipv6Only"))
    if let text = try await settings.text("permissions") {
      guard let bits = UInt16(text, radix: 8), bits <= 0o777 else {
        throw settings.error("permissions", "\(text.debugDescription) is not a number of octal digits from 0 to 777")
      }
      permissions = bits
    }
    proxyProtocol = try await Self.proxyProtocol(settings)
    connection = try await TCPConnection.Configuration(from: config, at: settings.key("connection"))
  }

  private static func proxyProtocol(_ settings: Settings) async throws -> ProxyProtocol? {
    let policy: ProxyProtocol.Policy? = try await settings.choice(
      "proxyProtocol.policy", of: ["required": .required, "optional": .optional])
    var networks: [IPNetwork] = []
    for text in try await settings.texts("proxyProtocol.trustedNetworks") ?? [] {
      do {
        networks.append(try IPNetwork(parsing: text))
      } catch {
        throw settings.error("proxyProtocol.trustedNetworks", "\(error)")
      }
    }
    guard let policy else {
      if networks.isEmpty { return nil }
      throw settings.error("proxyProtocol.policy", "it is missing, although there are trusted networks")
    }
    var result = ProxyProtocol(policy, from: networks)
    set(
      &result.timeLimit,
      to: try await settings.time("proxyProtocol.timeLimit", in: Settings.shortest...Settings.longest))
    set(&result.maximumLength, to: try await settings.int("proxyProtocol.maximumLength", in: 16...16_384))
    return result
  }
}

extension ServeLimits {
  /// Reads the limits of a server. A limit without a value has its default.
  ///
  /// | key | value | limit |
  /// |---|---|---|
  /// | `connections` | at least 1 | ``connections`` |
  /// | `connectionsPerPeer` | at least 1 | ``connectionsPerPeer`` |
  ///
  /// - Parameters:
  ///   - config: The reader.
  ///   - key: What the keys begin with.
  /// - Throws: ``SettingError`` if a value is of the wrong kind or out of range.
  public init(from config: ConfigReader, at key: ConfigKey = []) async throws {
    let settings = Settings(config, at: key)
    self.init(
      connections: try await settings.int("connections", in: 1...Int.max),
      connectionsPerPeer: try await settings.int("connectionsPerPeer", in: 1...Int.max))
  }
}

extension Drain {
  /// Reads how a server drains.
  ///
  /// | key | value | default |
  /// |---|---|---|
  /// | `time` | seconds | 30 |
  /// | `idleReads` | `wait`, `endMessages` or `endAll` | `endMessages` |
  ///
  /// - Parameters:
  ///   - config: The reader.
  ///   - key: What the keys begin with.
  /// - Throws: ``SettingError`` if a value is of the wrong kind or out of range.
  public init(from config: ConfigReader, at key: ConfigKey = []) async throws {
    let settings = Settings(config, at: key)
    let time = try await settings.time("time", in: 0...Settings.longest) ?? .seconds(30)
    let idleReads: IdleReads? = try await settings.choice(
      "idleReads", of: ["wait": .wait, "endMessages": .endMessages, "endAll": .endAll])
    self = .within(time, idleReads: idleReads ?? .endMessages)
  }
}

extension Endpoint {
  /// Reads an endpoint in the form that ``Endpoint/init(parsing:)`` parses, such as `0.0.0.0:80` or `unix:/run/server.sock`.
  ///
  /// - Parameters:
  ///   - config: The reader.
  ///   - key: The key.
  /// - Throws: ``SettingError`` if there is no value, or it is not an endpoint.
  public init(from config: ConfigReader, at key: ConfigKey) async throws {
    let settings = Settings(config, at: key)
    guard let endpoint = try await settings.endpoint("") else { throw settings.error("", "it is missing") }
    self = endpoint
  }
}
