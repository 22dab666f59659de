internal import SocketSystem

/// A directory of this machine as the disk of a program.
///
/// ```swift
/// let disk = try LinuxDisk(directory: "/var/lib/queue")
/// try await disk.replace("state", with: state)
/// ```
///
/// The calls block a thread of Swift's pool for as long as the disk takes. Symbolic links are followed, so a path can lead out of the
/// directory if somebody has put a link there.
public final class LinuxDisk: Disk {
  private let directory: OwnedDescriptor
  private let permissions: UInt16

  /// Opens a directory: open(2), which may block.
  ///
  /// - Parameters:
  ///   - directory: The path of the directory, which exists. If it is renamed later, the disk stays in it.
  ///   - permissions: The permission bits of new files, of which the umask removes some. New directories also get the right to be entered
  ///     by those who may read them.
  /// - Throws: ``SocketError``: `.pathNotFound`, `.permissionDenied`, and other errors of open(2).
  public init(directory: String, permissions: UInt16 = 0o644) throws {
    self.directory = try opening(directory, OwnedDescriptor.openDirectory)
    self.permissions = permissions
  }

  /// Opens a file for reading and writing: openat(2).
  @concurrent
  public func open(_ path: String, creation: FileCreation) async throws -> any DiskFile {
    let operation = "open \(AddressError.quote(path))"
    _ = try DiskPath(path, operation: operation)
    return try LinuxDiskFile(
      carryingOut(operation) { () throws(SystemError) in
        try directory.openFile(path, creation, permissions: permissions)
      }, operation)
  }

  /// Gives a file or a directory another path: renameat(2).
  @concurrent
  public func rename(_ path: String, to newPath: String) async throws {
    let operation = "rename \(AddressError.quote(path))"
    _ = try (DiskPath(path, operation: operation), DiskPath(newPath, operation: operation))
    try carryingOut(operation) { () throws(SystemError) in try directory.rename(path, to: newPath) }
  }

  /// Removes a file or an empty directory: unlinkat(2).
  @concurrent
  public func remove(_ path: String) async throws {
    let operation = "remove \(AddressError.quote(path))"
    _ = try DiskPath(path, operation: operation)
    try carryingOut(operation) { () throws(SystemError) in try directory.remove(path) }
  }

  /// Creates a directory: mkdirat(2).
  @concurrent
  public func createDirectory(_ path: String) async throws {
    let operation = "createDirectory \(AddressError.quote(path))"
    _ = try DiskPath(path, operation: operation)
    let readable = permissions & 0o444
    try carryingOut(operation) { () throws(SystemError) in
      try directory.makeDirectory(path, permissions: permissions | readable >> 2)
    }
  }

  /// Returns the names in a directory: readdir(3).
  @concurrent
  public func list(_ path: String) async throws -> [String] {
    let operation = "list \(AddressError.quote(path))"
    _ = try DiskPath(path, operation: operation, mayBeEmpty: true)
    return try carryingOut(operation) { () throws(SystemError) in
      try directory.openDirectory(path.utf8.isEmpty ? "." : path).names()
    }.map { String(decoding: $0, as: UTF8.self) }
  }

  /// Waits until the names in a directory are on the disk: fsync(2).
  @concurrent
  public func synchronizeDirectory(_ path: String) async throws {
    let operation = "synchronizeDirectory \(AddressError.quote(path))"
    _ = try DiskPath(path, operation: operation, mayBeEmpty: true)
    try carryingOut(operation) { () throws(SystemError) in
      try directory.openDirectory(path.utf8.isEmpty ? "." : path).synchronize()
    }
  }
}

private final class LinuxDiskFile: DiskFile {
  private static let piece = 1 << 20

  private let descriptor: OwnedDescriptor

  init(_ descriptor: consuming OwnedDescriptor, _ operation: String) throws(SocketError) {
    self.descriptor = descriptor
    let size: Int?
    do throws(SystemError) { size = try self.descriptor.fileSize() } catch {
      throw SocketError(error, operation: operation)
    }
    if size == nil { throw .invalid(operation, "only a regular file can be opened") }
  }

  var count: Int {
    get async throws {
      try carryingOut("count") { () throws(SystemError) in try descriptor.fileSize() ?? 0 }
    }
  }

  @concurrent
  func read(at offset: Int, count: Int) async throws -> [UInt8] {
    let range = try checkedRange("read", at: offset, count: count)
    return try carryingOut("read") { () throws(SystemError) in
      var bytes: [UInt8] = []
      while bytes.count < range.count {
        let next = offset + bytes.count
        let more = try descriptor.read(from: next, atMost: min(Self.piece, range.upperBound - next))
        if more.isEmpty { break }
        bytes += more
      }
      return bytes
    }
  }

  @concurrent
  func write(_ bytes: [UInt8], at offset: Int) async throws {
    _ = try checkedRange("write", at: offset, count: bytes.count)
    try finish("write", descriptor.write(bytes, at: offset))
  }

  @concurrent
  func append(_ bytes: [UInt8]) async throws { try finish("append", descriptor.append(bytes)) }

  private func finish(_ operation: String, _ result: (count: Int, error: SystemError?)) throws(SocketError) {
    guard let error = result.error else { return }
    var failure = SocketError(error, operation: operation)
    failure.bytesTransferred = result.count
    throw failure
  }

  @concurrent
  func truncate(to size: Int) async throws {
    _ = try checkedRange("truncate", at: 0, count: size)
    try carryingOut("truncate") { () throws(SystemError) in try descriptor.truncate(to: size) }
  }

  @concurrent
  func synchronize() async throws {
    try carryingOut("synchronize") { () throws(SystemError) in try descriptor.synchronizeData() }
  }
}

private func carryingOut<Result: ~Copyable>(_ operation: String, _ call: () throws(SystemError) -> Result)
  throws(SocketError) -> Result
{
  do throws(SystemError) { return try call() } catch { throw SocketError(error, operation: operation) }
}
