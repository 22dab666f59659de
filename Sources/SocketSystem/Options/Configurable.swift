/// Settings that all have defaults, so that an expression can name those that differ:
///
/// ```swift
/// let connection = try await TCPConnection.connect(to: server, configuration: .with { $0.noDelay = false })
/// ```
public protocol Configurable {
  /// Creates the defaults.
  init()
}

extension Configurable {
  /// Makes settings that differ from the defaults.
  ///
  /// - Parameter change: Changes the defaults.
  /// - Returns: The changed settings.
  /// - Throws: The error of the closure.
  public static func with<Failure: Error>(_ change: (_ settings: inout Self) throws(Failure) -> Void) throws(Failure)
    -> Self
  {
    var settings = Self()
    try change(&settings)
    return settings
  }
}
