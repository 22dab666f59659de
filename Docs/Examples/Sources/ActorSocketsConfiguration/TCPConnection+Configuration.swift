public import ActorSockets
public import Configuration

extension TCPConnection.Configuration {
  /// Reads the settings of a connection. A setting without a value has its default.
  ///
  /// | key | value | setting |
  /// |---|---|---|
  /// | `connectTimeout` | seconds | ``connectTimeout`` |
  /// | `addressPreference` | `any`, `ipv4Only`, `ipv6Only`, `preferIPv4`, `preferIPv6` or `neutral` | ``addressPreference`` |
  /// | `attemptDelay` | seconds, at least 0.01 | ``attemptDelay`` |
  /// | `source` | as in `eth0:0` | ``source`` |
  /// | `device` | an interface | ``device`` |
  /// | `closeTimeout` | seconds | ``closeTimeout`` |
  /// | `writeBudget` | bytes | ``writeBudget`` |
  /// | `onWriteOverflow` | `fail` or `abort` | ``onWriteOverflow`` |
  /// | `noDelay` | true or false | ``noDelay`` |
  /// | `closesOnEndOfStream` | true or false | ``closesOnEndOfStream`` |
  /// | `pendingDescriptorLimit` | a number | ``pendingDescriptorLimit`` |
  /// | `onTimeout` | `keepOpen` or `close` | ``onTimeout`` |
  /// | `keepAlive.enabled` | true or false | ``TCPConnection/Liveness/keepAlive`` |
  /// | `keepAlive.idle`, `keepAlive.interval` | seconds, 1 to 32767 | the same |
  /// | `keepAlive.count` | 1 to 127 | the same |
  /// | `unacknowledgedTimeout` | seconds | ``TCPConnection/Liveness/unacknowledgedTimeout`` |
  /// | `idleTimeout` | seconds | ``TCPConnection/Liveness/idleTimeout`` |
  /// | `retry.maximumTries` | at least 1 | ``TCPConnection/Retry``, which each of these four turns on |
  /// | `retry.firstDelay`, `retry.maximumDelay`, `retry.tryTimeout` | seconds | the same |
  ///
  /// Seconds may have a fraction. Everything else is set in code: the resolver, the proxy, which has a password, `prepare`, and captures.
  ///
  /// - Parameters:
  ///   - config: The reader.
  ///   - key: What the keys begin with. Give it here rather than by `scoped(to:)`, so that errors name the whole key.
  /// - Throws: ``SettingError`` if a value is of the wrong kind or out of range.
  public init(from config: ConfigReader, at key: ConfigKey = []) async throws {
    self.init()
    let settings = Settings(config, at: key)
    try await readConnecting(settings)
    try await readWriting(settings)
    try await readLiveness(settings)
    try await readRetry(settings)
  }

  private mutating func readConnecting(_ settings: Settings) async throws {
    let times = Settings.shortest...Settings.longest
    set(&connectTimeout, to: try await settings.time("connectTimeout", in: times))
    set(
      &addressPreference,
      to: try await settings.choice(
        "addressPreference",
        of: [
          "any": .any, "ipv4Only": .ipv4Only, "ipv6Only": .ipv6Only, "preferIPv4": .preferIPv4,
          "preferIPv6": .preferIPv6, "neutral": .neutral,
        ]))
    set(&attemptDelay, to: try await settings.time("attemptDelay", in: 0.01...Settings.longest))
    if let source = try await settings.endpoint("source") { self.source = source }
    if let device = try await settings.text("device") { self.device = device }
  }

  private mutating func readWriting(_ settings: Settings) async throws {
    set(&closeTimeout, to: try await settings.time("closeTimeout", in: 0...Settings.longest))
    set(&writeBudget, to: try await settings.int("writeBudget", in: 0...Int.max))
    set(&onWriteOverflow, to: try await settings.choice("onWriteOverflow", of: ["fail": .fail, "abort": .abort]))
    set(&noDelay, to: try await settings.bool("noDelay"))
    set(&closesOnEndOfStream, to: try await settings.bool("closesOnEndOfStream"))
    set(&pendingDescriptorLimit, to: try await settings.int("pendingDescriptorLimit", in: 0...Int.max))
    set(&onTimeout, to: try await settings.choice("onTimeout", of: ["keepOpen": .keepOpen, "close": .close]))
  }

  private mutating func readLiveness(_ settings: Settings) async throws {
    var keepAlive = TCPConnection.Liveness.KeepAlive()
    set(&keepAlive.idle, to: try await settings.time("keepAlive.idle", in: 1...32_767))
    set(&keepAlive.interval, to: try await settings.time("keepAlive.interval", in: 1...32_767))
    set(&keepAlive.count, to: try await settings.int("keepAlive.count", in: 1...127))
    liveness.keepAlive = try await settings.bool("keepAlive.enabled") == false ? nil : keepAlive
    let times = Settings.shortest...Settings.longest
    liveness.unacknowledgedTimeout = try await settings.time("unacknowledgedTimeout", in: times)
    liveness.idleTimeout = try await settings.time("idleTimeout", in: times)
  }

  private mutating func readRetry(_ settings: Settings) async throws {
    var retry = TCPConnection.Retry()
    let times = 0...Settings.longest
    let isSet = [
      set(&retry.maximumTries, to: try await settings.int("retry.maximumTries", in: 1...Int.max)),
      set(&retry.firstDelay, to: try await settings.time("retry.firstDelay", in: times)),
      set(&retry.maximumDelay, to: try await settings.time("retry.maximumDelay", in: times)),
      set(&retry.tryTimeout, to: try await settings.time("retry.tryTimeout", in: times)),
    ]
    if isSet.contains(true) { self.retry = retry }
  }
}
