/// The name of a unix socket, see unix(7): a path in the file system, an abstract name, or no name.
///
/// In text, `@name` is the abstract name `name`, which the kernel writes with a leading NUL byte. The empty text means
/// no name. A path that begins with `@` is written `./@name`.
///
/// The kernel's names are bytes. If another program chose a name that is not UTF-8, the text has U+FFFD in place of the
/// invalid bytes. Such a text is useful in logs, but does not lead back to the socket.
public struct UnixPath: Sendable, Hashable, LosslessStringConvertible {
  /// The name as text: a path, `@` followed by an abstract name, or the empty text.
  public let description: String

  /// The greatest length of a path or an abstract name, in bytes. `sun_path` has 108 bytes, and one is for the NUL.
  static let maximumLength = 107

  /// Creates a name after checking it.
  ///
  /// - Parameter text: A path, `@` followed by an abstract name, or the empty text for an unnamed socket.
  /// - Throws: `AddressError` with the reason `.unixPath` if the text contains a NUL, or if it has more than 107 bytes
  ///   of UTF-8, not counting a leading `@`.
  public init(parsing text: String) throws(AddressError) {
    let count = text.utf8.count - (text.utf8.first == UInt8(ascii: "@") ? 1 : 0)
    guard count <= Self.maximumLength else {
      throw AddressError(
        text: text, reason: .unixPath,
        detail: "it has \(count) bytes, where the kernel takes \(Self.maximumLength) at the most")
    }
    guard !text.utf8.contains(0) else {
      throw AddressError(text: text, reason: .unixPath, detail: "it has a NUL character in it")
    }
    description = text
  }

  /// Creates a name as `init(parsing:)` does. Returns `nil` where that throws.
  public init?(_ description: String) {
    guard let path = try? Self(parsing: description) else { return nil }
    self = path
  }

  /// Creates a name from the kernel, which has checked it by its own rules. Abstract names may contain NULs.
  init(fromKernel name: String) {
    description = name
  }

  /// The name of a socket without a name.
  package static let unnamed = UnixPath(fromKernel: "")

  /// Whether this is an abstract name. Such a name is in no file system, and disappears when its last socket is closed.
  public var isAbstract: Bool { description.utf8.first == UInt8(ascii: "@") }
  /// Whether the socket has no name. The sockets of most clients have no name.
  public var isUnnamed: Bool { description.isEmpty }

  /// The directory of a path: the part before the last slash.
  package var directory: String {
    guard let slash = description.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "." }
    return slash == description.utf8.startIndex ? "/" : String(Substring(description.utf8[..<slash]))
  }

  // Names are compared by bytes, as the kernel does. String would treat different normalization forms as equal, but
  // they are different file names.

  /// Returns whether the names have the same bytes.
  public static func == (left: UnixPath, right: UnixPath) -> Bool {
    left.description.utf8.elementsEqual(right.description.utf8)
  }

  /// Hashes the bytes of the name.
  ///
  /// - Parameter hasher: The hasher to feed.
  public func hash(into hasher: inout Hasher) {
    for byte in description.utf8 { hasher.combine(byte) }
    hasher.combine(UInt8.max)
  }
}
