import Glibc

// The file of a listening unix socket. bind(2) makes it; its permissions are narrowed before any other program can see it; it is removed
// with the listener. A file that an ended program left behind is replaced. A file that is no socket is never removed, and neither is a
// socket that any program has open. The facts, and what follows from them:
//
// - bind(2) never replaces a file, and never follows a link in the last part of the path. It fails with EADDRINUSE, whatever is there. A
//   symbolic link is examined as a link (lstat(2), O_NOFOLLOW), and stays, wherever it leads.
// - connect(2) of a *datagram* socket tells whether any program has the socket of a file open. ECONNREFUSED: no program has. EPROTOTYPE:
//   it is a stream socket, whether it listens or not, and whatever waits in its backlog. Success: it is a datagram socket. The other
//   program notices nothing of it. (connect(2) of a stream socket is not suitable: a socket that is bound but does not listen yet refuses
//   it too, and a listening one gets a connection in its backlog.) Only ECONNREFUSED means that a socket is stale. With any other error,
//   for example EACCES, the socket may be in use.
// - A file system may give the inode number of a removed file to the next file. So a descriptor (O_PATH) holds the file while it is
//   examined. If the path leads to the same device and inode number afterwards, it is the same file.
// - Between that last check and unlink(2), another server could do the same, and the second server would remove the socket of the first.
//   So a server locks the directory (flock(2)) from before it binds until it listens. bind(2) itself makes the file a moment before the
//   socket can be found through it. The lock covers that moment too.
// - The lock ends with its descriptor, even when the program is killed. A server waits for it only some milliseconds, because any program
//   that may read the directory can hold it. A server that does not get the lock fails if it finds a stale socket; it still binds to a
//   free path. If a directory cannot be opened for reading, or a file system has no locks, there is no lock. Then two servers that start
//   at the same moment must not have the same path.
// - A program that does not lock is safe as soon as its bind(2) has returned. In a file system that several machines share, a socket of
//   another machine looks stale. So such a path must belong to one machine.
// - fchmod(2) of the socket before bind(2) gives the file its mode, narrowed by the umask. Before listen(2), the permissions that were
//   asked for and that the umask removed are added again. So the file never has more permissions than asked for. umask(2) belongs to the
//   whole process, so it is not changed.
// - A program may change its directory while it listens. So the file of a relative path is removed by its path from the root on.
// - In a simulation, all of this happens on one thread and at one moment: no other server comes between. So its directories cannot be
//   locked, and its files need not be held. There are no permissions either.

/// The file that bind(2) made for a unix socket, distinguished from a later file at the same path.
package struct UnixSocketFile: Sendable {
  private let path: UnixPath
  private let identity: FileIdentity?

  /// Binds a socket to a path, replaces a stale socket there, and listens: bind(2), listen(2). The caller removes the file. `permissions`
  /// is `nil` to leave them to the umask; `backlog` is `nil` for a datagram socket, which does not listen.
  ///
  /// Throws EADDRINUSE of bind(2) if the path has something that is not stale, and EWOULDBLOCK of flock(2) if the file there may belong
  /// to another server that starts now. Then no file is left behind.
  package static func make(
    for socket: BorrowedDescriptor, at path: UnixPath, permissions: UInt16?, backlog: Int32?
  ) throws(SystemError) -> UnixSocketFile {
    if let permissions {
      try socket.call("fchmod") { $0.setPermissions(of: socket.number, to: permissions) }
    }
    return try whileLocked(path.directory) { mayRemove throws(SystemError) in
      try bind(socket, path, mayRemove: mayRemove)
      let path = system.absolute(path)
      let file = UnixSocketFile(path: path, identity: identity(at: path))
      do throws(SystemError) {
        if let permissions { try system.hold(path)?.widen(to: permissions) }
        if let backlog { try socket.listen(backlog: backlog) }
      } catch {
        file.remove()
        throw error
      }
      return file
    }
  }

  /// Removes the file, unless the path leads to another file by now: unlink(2). Call this while the socket is open. Until then, no other
  /// file has the same inode number, and no server treats the socket as stale.
  package func remove() {
    guard let identity else { return }
    let system = identity.system
    if system.status(of: path, followingLinks: false)?.identity == identity { _ = system.unlink(path) }
  }

  private static var system: any SystemCalls { CurrentSystem.calls }

  private static func identity(at path: UnixPath) -> FileIdentity? {
    system.status(of: path, followingLinks: false)?.identity
  }
}

extension UnixSocketFile {
  private static func bind(_ socket: BorrowedDescriptor, _ path: UnixPath, mayRemove: Bool) throws(SystemError) {
    // The file there may disappear or be replaced while it is examined. Then the loop tries again, but not for ever.
    for _ in 0..<10 {
      do throws(SystemError) {
        return try socket.bind(to: .unix(path))
      } catch {
        guard error.errno == EADDRINUSE else { throw error }
        guard let held = try system.hold(path) else { continue }
        if held.status.kind != .socket { throw error }
        switch -(try system.probe(path)) {
        case ECONNREFUSED: break
        case ENOENT: continue
        default: throw error
        }
        if !mayRemove { throw SystemError(call: "flock", errno: EWOULDBLOCK) }
        if identity(at: path) != held.status.identity { continue }
        let removed = system.unlink(path)
        if removed != -ENOENT { try check(removed, "unlink") }
      }
    }
    throw SystemError(call: "bind", errno: EADDRINUSE)
  }

  /// Locks the directory against other servers that start. `body` may not remove files if another program has the lock. Throws the error
  /// of open(2) if no descriptor is free.
  private static func whileLocked<Result>(
    _ directory: UnixPath, _ body: (_ mayRemove: Bool) throws(SystemError) -> Result
  ) throws(SystemError) -> Result {
    let number = system.openDirectory(directory)
    if number == -EMFILE || number == -ENFILE { throw SystemError(call: "open", errno: -number) }
    if number < 0 { return try body(true) }
    let descriptor = OwnedDescriptor(owning: number)
    for _ in 0..<lockAttempts {
      if flock(descriptor.number, LOCK_EX | LOCK_NB) == 0 {
        // A child process that is forked at this moment also has the descriptor, and with it the lock, until it executes another program.
        // So the lock is released explicitly.
        defer { flock(descriptor.number, LOCK_UN) }
        return try body(true)
      }
      if errno != EWOULDBLOCK { return try body(true) }
      poll(nil, 0, 1)
    }
    return try body(false)
  }

  /// One millisecond apart.
  private static var lockAttempts: Int { 20 }
}

// MARK: -

package struct FileStatus: Sendable {
  package let kind: FileKind
  package let identity: FileIdentity
  let permissions: UInt16

  init(_ status: stat) {
    kind = FileKind(mode: status.st_mode)
    identity = FileIdentity(device: UInt64(status.st_dev), inode: UInt64(status.st_ino))
    permissions = UInt16(status.st_mode & 0o7777)
  }

  package init(simulatedSocket inode: UInt64) {
    kind = .socket
    identity = FileIdentity(device: FileIdentity.simulatedDevice, inode: inode)
    permissions = 0o777
  }
}

/// No two files that exist have the same identity.
package struct FileIdentity: Equatable, Sendable {
  let device: UInt64
  let inode: UInt64

  /// No device of Linux has this number. So no file on the disk is taken for that of a simulated socket.
  static let simulatedDevice = UInt64.max

  /// Linux, whichever thread asks, or the simulation of the calling thread.
  var system: any SystemCalls { device == Self.simulatedDevice ? CurrentSystem.calls : Linux() }
}

/// A file held open, so that no other file gets its identity.
package struct HeldFile: ~Copyable {
  /// `nil` in a simulation, which gives each identity once.
  private let descriptor: OwnedDescriptor?
  private let number: Int32?
  package let status: FileStatus

  init(descriptor: consuming OwnedDescriptor, status: FileStatus) {
    number = descriptor.number
    self.descriptor = .some(descriptor)
    self.status = status
  }

  package init(simulated status: FileStatus) {
    number = nil
    descriptor = nil
    self.status = status
  }

  /// Adds the permissions that the umask removed: chmod(2). It changes exactly this file, even if the path leads to another file by now.
  borrowing func widen(to permissions: UInt16) throws(SystemError) {
    guard status.kind == .socket, status.permissions != permissions, let number else { return }
    // SAFETY: the text is valid for the call.
    try check(Linux.result(unsafe chmod("/proc/self/fd/\(number)", mode_t(permissions))), "chmod")
  }
}
