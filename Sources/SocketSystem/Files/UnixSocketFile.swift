internal import CLinux
import Glibc

// The file of a listening unix socket: made by bind(2), narrowed before anybody can see it, removed with the listener, and
// replaced if it was left behind by a program that has ended. Nothing is removed that is no socket, and no socket that
// anybody has open. Facts, and what follows from them:
//
// - bind(2) never replaces a file and never follows a link in the last place: it fails with EADDRINUSE, whatever is there.
//   A symbolic link is looked at as a link (lstat(2), O_NOFOLLOW), and stays, wherever it leads to.
// - connect(2) of a *datagram* socket tells whether anybody has the socket of a file open: ECONNREFUSED if nobody has;
//   EPROTOTYPE if it is a stream, listening or not yet, whatever waits in its backlog; success if it is a datagram socket.
//   Nothing of it reaches the other program. (A stream's connect(2) is refused by a socket that is bound but not yet
//   listening, too, and otherwise leaves a connection in the backlog.) Only ECONNREFUSED means that a socket is stale: all
//   else, for example EACCES, may be a live one.
// - A file system may give the number of a removed file to the next one. So the file is held by a descriptor (O_PATH) while
//   it is judged: as long as the path leads to the same device and number afterwards, it is the same file.
// - Between that last look and unlink(2), another server could do the same, and the second one would remove the socket of
//   the first. So a server locks the directory (flock(2)) from before it binds until it listens. bind(2) itself makes the
//   file a moment before the socket can be found by it: the lock covers that, too.
// - The lock goes with its descriptor, also when the program is killed. It is never waited for longer than some
//   milliseconds: anyone who may read the directory can hold it, so that then a stale socket is left where it is, and is
//   the error; a path that is free is bound all the same. Where a directory cannot be opened for reading, or a
//   file system knows no locks, there is no lock, and two servers that start at the same moment must not share a path.
// - A program that does not lock is safe as soon as its bind(2) has returned. In a file system that several machines
//   share, a socket of another machine looks stale: such a path must belong to one machine.
// - fchmod(2) of the socket before bind(2) gives the file its mode, narrowed by the umask. What the umask took away and was
//   asked for is given back before listen(2). So the file is never wider than asked for; umask(2), which belongs to
//   the whole process, is left alone.

/// The file that bind(2) made for a unix socket, told from a later one of the same path.
package struct UnixSocketFile: Sendable {
  private let path: String
  private let identity: FileIdentity?

  /// bind(2) and listen(2) at a path, in place of a stale socket if one is there.
  ///
  /// - Parameters:
  ///   - socket: A socket that is not bound.
  ///   - path: Where; a path in the file system.
  ///   - permissions: The file's permission bits; `nil` leaves them to the umask.
  ///   - backlog: The connections that wait to be accepted; `nil` for a socket that does not listen, for datagrams.
  /// - Returns: The file, which the caller removes.
  /// - Throws: What a call reports: EADDRINUSE of bind(2) if something is there that is not stale, EWOULDBLOCK of flock(2) if it
  ///   may be another server's that starts now. No file is left behind.
  package static func make(
    for socket: Socket, at path: UnixPath, permissions: UInt16?, backlog: Int32?
  ) throws(SystemError) -> UnixSocketFile {
    if let permissions { _ = try check(fchmod(socket.number, mode_t(permissions)), "fchmod") }
    return try whileLocked(path.directory) { mayRemove throws(SystemError) in
      try bind(socket, path, mayRemove: mayRemove)
      let file = UnixSocketFile(path: path.description, identity: FileIdentity(at: path.description))
      do throws(SystemError) {
        if let permissions { try HeldFile(ifAt: path.description)?.widen(to: mode_t(permissions)) }
        if let backlog { try socket.listen(backlog: backlog) }
      } catch {
        file.remove()
        throw error
      }
      return file
    }
  }

  /// unlink(2), unless the path is another file's by now. To be called while the socket is open: then its file's number is
  /// no other's, and no server takes it for stale.
  package func remove() {
    guard let identity, FileIdentity(at: path) == identity else { return }
    // SAFETY: the text is valid for the call.
    _ = unsafe unlink(path)
  }
}

extension UnixSocketFile {
  /// bind(2), in place of a stale socket.
  private static func bind(_ socket: Socket, _ path: UnixPath, mayRemove: Bool) throws(SystemError) {
    // What is there may go, or be replaced, while it is looked at: then once more, but not for ever.
    for _ in 0..<10 {
      do throws(SystemError) {
        return try socket.bind(to: .unix(path))
      } catch {
        guard error.errno == EADDRINUSE else { throw error }
        guard let held = try HeldFile(ifAt: path.description) else { continue }
        if held.kind != .socket { throw error }
        switch try probe(path) {
        case ECONNREFUSED: break
        case ENOENT: continue
        default: throw error
        }
        if !mayRemove { throw SystemError(call: "flock", errno: EWOULDBLOCK) }
        if !held.isStill(at: path.description) { continue }
        // SAFETY: the text is valid for the call.
        if unsafe unlink(path.description) != 0, errno != ENOENT { throw SystemError(call: "unlink", errno: errno) }
      }
    }
    throw SystemError(call: "bind", errno: EADDRINUSE)
  }

  /// What connect(2) of a datagram socket says: ECONNREFUSED if nobody has the socket there open.
  private static func probe(_ path: UnixPath) throws(SystemError) -> Int32 {
    let type = Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue) | Int32(SOCK_CLOEXEC.rawValue)
    let probe = Descriptor(owning: try check(Glibc.socket(AF_UNIX, type, 0), "socket"))
    do throws(SystemError) {
      _ = try probe.socket.connect(to: .unix(path))
      return 0
    } catch {
      return error.errno
    }
  }

  /// Runs `body` while the directory is locked against other servers that start.
  ///
  /// - Parameters:
  ///   - directory: The directory.
  ///   - body: Hears whether files may be removed; not if somebody else has the lock.
  /// - Returns: What it returns.
  /// - Throws: What it throws, and open(2) for want of descriptors.
  private static func whileLocked<Result>(
    _ directory: String, _ body: (_ mayRemove: Bool) throws(SystemError) -> Result
  ) throws(SystemError) -> Result {
    // SAFETY: the text is valid for the call.
    let number = unsafe open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    if number < 0 {
      if errno == EMFILE || errno == ENFILE { throw SystemError(call: "open", errno: errno) }
      return try body(true)
    }
    let descriptor = Descriptor(owning: number)
    for _ in 0..<lockAttempts {
      if flock(descriptor.number, LOCK_EX | LOCK_NB) == 0 {
        // A child process of this moment has the descriptor, too, and with it the lock, until it runs another program.
        defer { flock(descriptor.number, LOCK_UN) }
        return try body(true)
      }
      if errno != EWOULDBLOCK { return try body(true) }
      poll(nil, 0, 1)
    }
    return try body(false)
  }

  /// How often the lock is tried, a millisecond apart.
  private static var lockAttempts: Int { 20 }
}

// MARK: -

/// What tells a file from all others that there are.
private struct FileIdentity: Equatable, Sendable {
  let device: UInt64
  let inode: UInt64

  init(_ status: stat) {
    device = UInt64(status.st_dev)
    inode = UInt64(status.st_ino)
  }

  /// What is at a path now, links not followed: lstat(2).
  init?(at path: String) {
    var status = stat()
    // SAFETY: the text and `status` are valid for the call.
    guard unsafe lstat(path, &status) == 0 else { return nil }
    self.init(status)
  }
}

/// A file that is held, so that its number is no other's meanwhile: open(2) with O_PATH, which opens nothing.
private struct HeldFile: ~Copyable {
  private let descriptor: Descriptor
  let identity: FileIdentity
  let kind: FileKind
  private let permissions: mode_t

  /// Holds what is at a path; a link is held itself. `nil` if nothing is there.
  init?(ifAt path: String) throws(SystemError) {
    // SAFETY: the text is valid for the call.
    let number = unsafe clinux_open_path(path)
    if number == -ENOENT { return nil }
    if number < 0 { throw SystemError(call: "open", errno: -number) }
    let descriptor = Descriptor(owning: number)
    var status = stat()
    // SAFETY: `status` is valid for the call.
    _ = try check(unsafe fstat(number, &status), "fstat")
    self.descriptor = descriptor
    identity = FileIdentity(status)
    kind = FileKind(mode: status.st_mode)
    permissions = status.st_mode & 0o7777
  }

  /// Whether the path still leads to it.
  func isStill(at path: String) -> Bool { FileIdentity(at: path) == identity }

  /// chmod(2), if the umask took something away; of this very file, whatever the path leads to by now.
  func widen(to permissions: mode_t) throws(SystemError) {
    guard kind == .socket, self.permissions != permissions else { return }
    // SAFETY: the text is valid for the call.
    _ = try check(unsafe chmod("/proc/self/fd/\(descriptor.number)", permissions), "chmod")
  }
}
