import Glibc

/// The name of a unix socket, see unix(7): a path in the file system, an abstract name, or no name.
///
/// In text, `@name` is the abstract name `name`, which the kernel writes with a leading NUL byte. The empty text means
/// no name. A path that begins with `@` is written `./@name`.
///
/// The kernel's names are bytes, and `bytes` has them. If another program chose a name that is not UTF-8, the text has
/// U+FFFD in place of the invalid bytes. So use the text for logs, and pass this value itself to reach the socket.
public struct UnixPath: Sendable, Hashable, LosslessStringConvertible {
  /// The name as the kernel has it: a path, a NUL followed by an abstract name, or no bytes. Names are equal if these
  /// bytes are.
  public let bytes: [UInt8]

  /// The name as text: a path, `@` followed by an abstract name, or the empty text.
  public var description: String {
    let text = String(decoding: isAbstract ? bytes.dropFirst() : bytes[...], as: UTF8.self)
    if isAbstract { return "@" + text }
    return bytes.first == Self.at ? "./" + text : text
  }

  /// In bytes. `sun_path` has 108 bytes, and one is for the NUL.
  static let maximumLength = 107
  private static let at = UInt8(ascii: "@")

  /// Creates a name after checking it.
  ///
  /// - Parameter text: A path, `@` followed by an abstract name, or the empty text for an unnamed socket.
  /// - Throws: `AddressError` with the reason `.unixPath` if the text contains a NUL, or if it has more than 107 bytes
  ///   of UTF-8, not counting a leading `@`.
  public init(parsing text: String) throws(AddressError) {
    guard !text.utf8.contains(0) else {
      throw AddressError(text: text, reason: .unixPath, detail: "it has a NUL character in it")
    }
    try self.init(bytes: text.utf8.first == Self.at ? [0] + text.utf8.dropFirst() : Array(text.utf8))
  }

  /// Creates a name from the bytes that the kernel has, which need not be UTF-8.
  ///
  /// - Parameter bytes: A path, a NUL followed by an abstract name, or no bytes for an unnamed socket.
  /// - Throws: `AddressError` with the reason `.unixPath` if a path contains a NUL, or if a path or an abstract name
  ///   has more than 107 bytes, not counting the NUL that begins an abstract name.
  public init(bytes: [UInt8]) throws(AddressError) {
    self.init(unchecked: bytes)
    let count = bytes.count - (isAbstract ? 1 : 0)
    guard count <= Self.maximumLength else {
      throw AddressError(
        text: description, reason: .unixPath,
        detail: "it has \(count) bytes, where the kernel takes \(Self.maximumLength) at the most")
    }
    guard isAbstract || !bytes.contains(0) else {
      throw AddressError(text: description, reason: .unixPath, detail: "it has a NUL character in it")
    }
  }

  /// Creates a name as `init(parsing:)` does. Returns `nil` where that throws.
  public init?(_ description: String) {
    guard let path = try? Self(parsing: description) else { return nil }
    self = path
  }

  /// For a name from the kernel, which has checked it by its own rules, or a path that is not for a socket.
  init(unchecked bytes: [UInt8]) { self.bytes = bytes }

  package static let unnamed = UnixPath(unchecked: [])

  /// Whether this is an abstract name. Such a name is in no file system, and disappears when its last socket is closed.
  public var isAbstract: Bool { bytes.first == 0 }
  /// Whether the socket has no name. The sockets of most clients have no name.
  public var isUnnamed: Bool { bytes.isEmpty }
}

// MARK: - Paths in the file system

extension UnixPath {
  private static let slash = UInt8(ascii: "/")

  package var directory: UnixPath {
    guard let slash = bytes.lastIndex(of: Self.slash) else { return UnixPath(unchecked: [UInt8(ascii: ".")]) }
    return UnixPath(unchecked: Array(slash == 0 ? bytes[...0] : bytes[..<slash]))
  }

  /// The path from the root on, so that it stays valid when the process changes its directory: getcwd(3). It stays as it is if the
  /// current directory has no path.
  var absolute: UnixPath {
    if bytes.first == Self.slash { return self }
    // SAFETY: getcwd(3) allocates memory for the text, which is freed after it was copied.
    guard let current = unsafe getcwd(nil, 0) else { return self }
    defer { unsafe free(current) }
    let directory = unsafe Array(UnsafeRawBufferPointer(start: current, count: strlen(current)))
    return directory.first == Self.slash ? UnixPath(unchecked: directory + [Self.slash] + bytes) : self
  }

  /// Lends the path with a NUL at its end. The pointer is valid until the closure returns.
  func withFileName<Result>(_ body: (UnsafePointer<CChar>) -> Result) -> Result {
    // SAFETY: the compiler lends the array, which ends with a NUL, until the closure returns.
    unsafe body(bytes.map { CChar(bitPattern: $0) } + [0])
  }
}
