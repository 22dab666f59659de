import ByteText

/// The commands that programs use most, with Swift types.
extension RedisClient {
  /// Returns the text of a key; `nil` if the key does not exist.
  func get(_ key: String) async throws -> String? {
    try await bytes(of: key).map { String(decoding: $0, as: UTF8.self) }
  }

  /// Returns the bytes of a key; `nil` if the key does not exist.
  func bytes(of key: String) async throws -> [UInt8]? { try optionalBytes(await send(RedisCommand("GET", key))) }

  /// Returns the texts of several keys; `nil` for each key that does not exist.
  func get(_ keys: [String]) async throws -> [String?] {
    if keys.isEmpty { return [] }
    let reply = try await send(RedisCommand("MGET", keys.map { Array($0.utf8) }))
    guard case .array(let values) = reply else { throw RedisError.unexpected(reply) }
    return values.map(\.text)
  }

  /// Sets a key to a text.
  ///
  /// - Parameters:
  ///   - key: The key.
  ///   - text: The text.
  ///   - lifetime: When to remove the key; `nil` for never. Milliseconds count.
  /// - Throws: The errors of ``send(_:)``.
  func set(_ key: String, to text: String, for lifetime: Duration? = nil) async throws {
    try await set(key, to: Array(text.utf8), for: lifetime)
  }

  /// Sets a key to bytes.
  func set(_ key: String, to bytes: [UInt8], for lifetime: Duration? = nil) async throws {
    var arguments = [Array(key.utf8), bytes]
    if let lifetime { arguments += ["PX", "\(max(1, Int64(lifetime / .milliseconds(1))))"].map { Array($0.utf8) } }
    let reply = try await send(RedisCommand("SET", arguments))
    guard case .simple(let text) = reply, ByteText(text).equals("OK") else { throw RedisError.unexpected(reply) }
  }

  /// Removes keys. Returns how many there were.
  @discardableResult
  func remove(_ keys: String...) async throws -> Int {
    if keys.isEmpty { return 0 }
    return try await integer(RedisCommand("DEL", keys.map { Array($0.utf8) }))
  }

  /// Adds to a number, which is 0 if the key does not exist. Returns the sum.
  @discardableResult
  func increment(_ key: String, by amount: Int = 1) async throws -> Int {
    try await integer(RedisCommand("INCRBY", key, "\(amount)"))
  }

  /// Returns how long a key will exist; `nil` if it does not exist or has no end.
  func lifetime(of key: String) async throws -> Duration? {
    let milliseconds = try await integer(RedisCommand("PTTL", key))
    return milliseconds < 0 ? nil : .milliseconds(milliseconds)
  }

  /// Appends texts to a list. Returns its new length.
  @discardableResult
  func append(_ texts: String..., to list: String) async throws -> Int {
    try await integer(RedisCommand("RPUSH", ([list] + texts).map { Array($0.utf8) }))
  }

  /// Returns the texts of a list.
  func list(_ key: String) async throws -> [String] {
    let reply = try await send(RedisCommand("LRANGE", key, "0", "-1"))
    guard case .array(let values) = reply else { throw RedisError.unexpected(reply) }
    return values.compactMap(\.text)
  }

  /// Sends a message to the subscribers of a channel. Returns how many have received it.
  @discardableResult
  func publish(_ message: String, to channel: String) async throws -> Int {
    try await integer(RedisCommand("PUBLISH", channel, message))
  }

  private func integer(_ command: RedisCommand) async throws -> Int {
    let reply = try await send(command)
    guard case .integer(let number) = reply else { throw RedisError.unexpected(reply) }
    return number
  }

  private func optionalBytes(_ reply: RESPValue) throws -> [UInt8]? {
    switch reply {
    case .null: nil
    case .bulk(let bytes): bytes
    default: throw RedisError.unexpected(reply)
    }
  }
}
