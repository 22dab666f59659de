/// The name of a unix socket, see unix(7): a path in the file system, an abstract name, or none.
///
/// In text, `@name` is the abstract name `name` (a leading NUL byte in the kernel), and the empty text is no name.
/// A path that itself begins with `@` is written `./@name`.
///
/// The kernel's names are bytes. Where another program chose a name that is not UTF-8, the text has U+FFFD for what is
/// not: it is good for logs, but does not lead back to that socket.
public struct UnixPath: Sendable, Hashable, LosslessStringConvertible {
  /// The name as text: a path, `@` and an abstract name, or empty.
  public let description: String

  /// The most bytes that a path or an abstract name can have: `sun_path` has 108, and one is for the NUL.
  static let maximumLength = 107

  /// Checks and takes a name.
  ///
  /// - Parameter text: A path, `@` and an abstract name, or nothing for an unnamed socket.
  /// - Throws: `AddressError` with the reason `.unixPath` if the text has a NUL or more than 107 bytes of UTF-8
  ///   (not counting the `@`).
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

  /// Checks and takes a name as `init(parsing:)` does; nil where that throws.
  public init?(_ description: String) {
    guard let path = try? Self(parsing: description) else { return nil }
    self = path
  }

  /// Takes a name from the kernel, which has checked it by its own rules: abstract names may have NULs in them.
  init(fromKernel name: String) {
    description = name
  }

  /// No name.
  package static let unnamed = UnixPath(fromKernel: "")

  /// Whether this is an abstract name, which exists in no file system and goes with its last socket.
  public var isAbstract: Bool { description.utf8.first == UInt8(ascii: "@") }
  /// Whether the socket has no name, as most clients have none.
  public var isUnnamed: Bool { description.isEmpty }

  /// The directory that a path is in: what is before the last slash.
  package var directory: String {
    guard let slash = description.utf8.lastIndex(of: UInt8(ascii: "/")) else { return "." }
    return slash == description.utf8.startIndex ? "/" : String(Substring(description.utf8[..<slash]))
  }

  // By bytes, as the kernel compares: the texts of String are equal across normalization forms, file names are not.

  /// Whether the names have the same bytes.
  public static func == (left: UnixPath, right: UnixPath) -> Bool {
    left.description.utf8.elementsEqual(right.description.utf8)
  }

  /// Hashes the bytes of the name.
  ///
  /// - Parameter hasher: The hasher that takes them.
  public func hash(into hasher: inout Hasher) {
    for byte in description.utf8 { hasher.combine(byte) }
    hasher.combine(UInt8.max)
  }
}
