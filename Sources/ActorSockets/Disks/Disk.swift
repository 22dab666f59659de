public import SocketSystem

/// Files of a program, on Linux or in a simulation.
///
/// A program that takes a disk as a parameter is the same in production, where it gets a ``LinuxDisk``, and in a simulation, where each
/// host has a `SimulatedDisk` that fails as disks do.
///
/// ```swift
/// func run(on disk: some Disk) async throws {
///   let log = try await disk.open("log")
///   try await disk.synchronizeDirectory("")  // the name of the file
///   try await log.append(entry)
///   try await log.synchronize()  // its contents
/// }
/// ```
///
/// A write is on the disk after ``DiskFile/synchronize()``. If the power fails before that, all of it may be lost, or parts of it, and of
/// several writes any may survive. The names of files are separate from their contents: a file that was created, renamed or removed is
/// so on the disk after ``synchronizeDirectory(_:)``. ``replace(_:with:)`` does all of this in the right order.
///
/// A program that was killed may read contents that are not on the disk yet: synchronize them before you tell others about them.
///
/// Paths are relative to the directory of the disk. They have names that are separated by `/`, without `.` and `..`. The empty path is the
/// directory of the disk itself.
///
/// *Cancellation* has no effect on the calls of a disk and its files: a call that has begun ends when the disk has done its work.
///
/// *Ordering*: calls that overlap may be carried out in any order.
public protocol Disk: Sendable {
  /// Opens a file for reading and writing: open(2).
  ///
  /// - Parameters:
  ///   - path: The path of the file.
  ///   - creation: Whether the file is created. A new file is empty.
  /// - Returns: The file. It is closed when the last reference is dropped.
  /// - Throws: ``SocketError``: `.pathNotFound`, also if a directory of the path does not exist; `.pathExists` with
  ///   ``FileCreation/exclusive``; `.invalidArgument` if it is not a regular file or not a valid path; `.diskFull`, `.diskFailed`,
  ///   `.permissionDenied` and other errors of the system.
  @concurrent func open(_ path: String, creation: FileCreation) async throws -> any DiskFile

  /// Gives a file or a directory another path: rename(2). A file at the new path is replaced, and so is an empty directory by a directory.
  ///
  /// A crash leaves the old state or the new one. Until ``synchronizeDirectory(_:)`` of one of the two directories, it may be either.
  ///
  /// - Parameters:
  ///   - path: The path.
  ///   - newPath: The new path.
  /// - Throws: ``SocketError``: `.pathNotFound`, also if a directory would replace a file; `.pathExists` if a directory with something in it
  ///   is at the new path;
  ///   `.invalidArgument` if a file would replace a directory, and if a directory would be moved into itself; and errors of the system.
  @concurrent func rename(_ path: String, to newPath: String) async throws

  /// Removes a file or an empty directory: unlink(2), rmdir(2). A file that is open can still be used.
  ///
  /// - Parameter path: The path.
  /// - Throws: ``SocketError``: `.pathNotFound`; `.pathExists` if the directory has something in it; and errors of the system.
  @concurrent func remove(_ path: String) async throws

  /// Creates a directory: mkdir(2).
  ///
  /// - Parameter path: The path. The directory that contains it exists.
  /// - Throws: ``SocketError``: `.pathNotFound`; `.pathExists`; and errors of the system.
  @concurrent func createDirectory(_ path: String) async throws

  /// Returns the names of all files and directories in a directory: readdir(3).
  ///
  /// - Parameter path: The path of the directory; empty for that of the disk.
  /// - Returns: The names, in the order of their bytes. Bytes that are not UTF-8 are replaced.
  /// - Throws: ``SocketError``: `.pathNotFound`, and errors of the system.
  @concurrent func list(_ path: String) async throws -> [String]

  /// Waits until the names in a directory are on the disk: what was created, renamed and removed before this call. fsync(2) of the
  /// directory.
  ///
  /// - Parameter path: The path of the directory; empty for that of the disk. A new directory has a name itself, in another directory.
  /// - Throws: ``SocketError``: `.pathNotFound`; `.diskFailed`; and other errors of the system. After an error, it is not known which
  ///   changes are on the disk.
  @concurrent func synchronizeDirectory(_ path: String) async throws
}

/// An open file of a ``Disk``.
///
/// Offsets are bytes from the beginning of the file. A file has no position, so any number of tasks can use it at the same time.
///
/// *Cancellation* has no effect: a call that has begun ends when the disk has done its work.
///
/// *Ordering*: calls that overlap may be carried out in any order.
public protocol DiskFile: Sendable {
  /// The size of the file in bytes: fstat(2).
  ///
  /// Throws ``SocketError`` if the system does.
  var count: Int { get async throws }

  /// Reads a part of the file: pread(2).
  ///
  /// - Parameters:
  ///   - offset: Where the part begins, at least 0.
  ///   - count: The number of bytes, at least 0.
  /// - Returns: The bytes: fewer than `count` only if the file ends before, and no bytes from its end on.
  /// - Throws: ``SocketError``: `.diskFailed`, `.invalidArgument`, and other errors of the system.
  @concurrent func read(at offset: Int, count: Int) async throws -> [UInt8]

  /// Writes bytes: pwrite(2). A file that ends before `offset` is filled with zeros up to it. It is on the disk after ``synchronize()``.
  ///
  /// - Parameters:
  ///   - bytes: The bytes.
  ///   - offset: Where they go, at least 0.
  /// - Throws: ``SocketError``: `.diskFull`, `.diskFailed`, `.invalidArgument`, and other errors of the system.
  ///   ``SocketError/bytesTransferred`` is the number of bytes that are in the file nevertheless.
  @concurrent func write(_ bytes: [UInt8], at offset: Int) async throws

  /// Writes bytes at the end of the file, wherever that is when they are written: pwritev2(2) with RWF_APPEND. It is on the disk after
  /// ``synchronize()``.
  ///
  /// *Ordering*: bytes of calls that overlap are not mixed, unless one of them fails.
  ///
  /// - Parameter bytes: The bytes.
  /// - Throws: ``SocketError``: `.diskFull`, `.diskFailed`, and other errors of the system. ``SocketError/bytesTransferred`` is the number
  ///   of bytes that are in the file nevertheless.
  @concurrent func append(_ bytes: [UInt8]) async throws

  /// Sets the size of the file: ftruncate(2). It is on the disk after ``synchronize()``.
  ///
  /// - Parameter size: The new size in bytes, at least 0. The file ends there; what is added is zero.
  /// - Throws: ``SocketError``: `.diskFailed`, `.invalidArgument`, and other errors of the system.
  @concurrent func truncate(to size: Int) async throws

  /// Waits until the contents and the size are on the disk, as they were when this was called: fdatasync(2).
  ///
  /// It says nothing about the name of the file: see ``Disk/synchronizeDirectory(_:)``.
  ///
  /// - Throws: ``SocketError``: `.diskFailed`, and other errors of the system. After an error, parts of the contents may be missing on the
  ///   disk, even if a later call succeeds. So write them again, or stop and use what is on the disk when the program starts again.
  @concurrent func synchronize() async throws
}

extension Disk {
  /// Opens a file for reading and writing, and creates it if it does not exist: ``open(_:creation:)``.
  ///
  /// - Parameter path: The path of the file.
  /// - Returns: The file.
  /// - Throws: ``SocketError``.
  public nonisolated(nonsending) func open(_ path: String) async throws -> any DiskFile {
    try await open(path, creation: .ifMissing)
  }

  /// Reads a whole file.
  ///
  /// - Parameters:
  ///   - path: The path of the file.
  ///   - maximumLength: The largest number of bytes that the file may have, at least 0.
  /// - Returns: The contents.
  /// - Throws: ``SocketError``: `.pathNotFound` if there is no file, `.limitExceeded` if it is longer, and the errors of
  ///   ``DiskFile/read(at:count:)``.
  public nonisolated(nonsending) func read(_ path: String, maximumLength: Int) async throws -> [UInt8] {
    let file = try await open(path, creation: .never)
    let bytes = try await file.read(at: 0, count: maximumLength < .max ? maximumLength + 1 : .max)
    if bytes.count > maximumLength {
      throw SocketError(.limitExceeded, operation: "read", detail: "the file has more than \(maximumLength) bytes")
    }
    return bytes
  }

  /// Replaces the contents of a file, so that a crash at any time leaves the old contents or the new ones. The file is created if it does
  /// not exist.
  ///
  /// It writes another file, whose path has `.new` at its end, waits until that is on the disk, renames it, and waits until the name is
  /// on the disk.
  ///
  /// *Ordering*: for each path, make one call after the other: calls that overlap would write the same new file.
  ///
  /// - Parameters:
  ///   - path: The path of the file. Its last name has at most 251 bytes, because that of the new file has four more.
  ///   - contents: The new contents.
  /// - Throws: ``SocketError``. The file then has the old contents or the new ones, and it is not known which of them a crash will leave.
  public nonisolated(nonsending) func replace(_ path: String, with contents: [UInt8]) async throws {
    let new = path + ".new"
    let file = try await open(new, creation: .ifMissing)
    do {
      // What an earlier call has left.
      try await file.truncate(to: 0)
      try await file.write(contents, at: 0)
      try await file.synchronize()
      try await rename(new, to: path)
    } catch {
      try? await remove(new)
      throw error
    }
    try await synchronizeDirectory(DiskPath.directory(of: path))
  }
}
