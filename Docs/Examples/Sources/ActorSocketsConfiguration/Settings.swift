internal import ActorSockets
internal import Configuration

/// Reads the values below a key, and checks them.
///
/// It uses the methods `fetch…` of the reader: its methods without that word take a value of the wrong kind for one that is missing.
struct Settings {
  private let reader: ConfigReader
  private let prefix: ConfigKey

  init(_ reader: ConfigReader, at prefix: ConfigKey) {
    self.reader = reader
    self.prefix = prefix
  }

  /// Returns the key of a setting.
  func key(_ name: String) -> ConfigKey {
    ConfigKey(prefix.components + ConfigKey(name).components, context: prefix.context)
  }

  func error(_ name: String, _ reason: String) -> SettingError {
    SettingError(key: key(name).description, reason: reason)
  }

  /// Fetches a value, so that each error names the key.
  private func fetch<Value>(
    _ name: String, _ kind: String, _ body: (ConfigKey) async throws -> Value?
  ) async throws -> Value? {
    do {
      return try await body(key(name))
    } catch {
      throw self.error(name, "\(kind) is needed (\(error))")
    }
  }

  // MARK: Values

  func bool(_ name: String) async throws -> Bool? {
    try await fetch(name, "true or false") { try await reader.fetchBool(forKey: $0) }
  }

  func text(_ name: String) async throws -> String? {
    try await fetch(name, "a text") { try await reader.fetchString(forKey: $0) }
  }

  func texts(_ name: String) async throws -> [String]? {
    try await fetch(name, "a list of texts") { try await reader.fetchStringArray(forKey: $0) }
  }

  func int(_ name: String, in range: ClosedRange<Int>) async throws -> Int? {
    guard let value = try await fetch(name, "a whole number", { try await reader.fetchInt(forKey: $0) }) else {
      return nil
    }
    if range.contains(value) { return value }
    let limit = range.upperBound == .max ? "at least \(range.lowerBound)" : "\(range.lowerBound) to \(range.upperBound)"
    throw error(name, "\(value) is out of range: \(limit)")
  }

  /// Returns a time that is configured in seconds.
  func time(_ name: String, in range: ClosedRange<Double>) async throws -> Duration? {
    let seconds = try await fetch(name, "a number of seconds") { try await reader.fetchDouble(forKey: $0) }
    guard let seconds else { return nil }
    // `contains` is false for a value that is not a number.
    if range.contains(seconds) { return .seconds(seconds) }
    let lowest = range.lowerBound == Self.shortest ? "more than 0" : "at least \(range.lowerBound)"
    throw error(name, "\(seconds) is out of range: \(lowest), at most \(range.upperBound) seconds")
  }

  func choice<Value>(_ name: String, of values: KeyValuePairs<String, Value>) async throws -> Value? {
    guard let text = try await text(name) else { return nil }
    if let found = values.first(where: { $0.key == text }) { return found.value }
    let known = values.map { $0.key }.joined(separator: ", ")
    throw error(name, "\(text.debugDescription) is none of: \(known)")
  }

  func endpoint(_ name: String) async throws -> Endpoint? {
    guard let text = try await text(name) else { return nil }
    do {
      return try Endpoint(parsing: text)
    } catch {
      throw self.error(name, "\(error)")
    }
  }
}

extension Settings {
  /// The longest time that is accepted, more than 30 years.
  static let longest = 1e9
  /// The shortest time that a setting can have if zero is not allowed: a microsecond.
  static let shortest = 1e-6
}

/// Sets a property if the configuration has a value for it.
///
/// - Parameters:
///   - property: The property.
///   - value: The value, if there is one.
/// - Returns: Whether there was one.
@discardableResult
func set<Value>(_ property: inout Value, to value: Value?) -> Bool {
  guard let value else { return false }
  property = value
  return true
}
