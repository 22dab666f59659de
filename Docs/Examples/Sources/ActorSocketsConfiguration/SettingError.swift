/// A value of a configuration that is not valid.
public struct SettingError: Error, CustomStringConvertible {
  /// The key, as the reader knows it: without the prefix of a scoped reader.
  public let key: String
  /// The reason why the value is refused.
  public let reason: String

  /// The key and what is wrong, in one line.
  public var description: String { "\(key): \(reason)" }
}
