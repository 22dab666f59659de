internal import SocketSystem

// The precise meaning of an errno for an address, where the kernel uses one errno for several causes. For example, the kernel
// reports EADDRINUSE if a directory is at the path of a socket, and ECONNREFUSED on connecting to a text file. After a call has
// failed, this code checks what is at the address, to improve the description and, where the cause is different, the code.

struct FailureCause: Equatable {
  let code: SocketError.Code
  let detail: String

  /// `nil` if the errno is precise enough.
  init?(_ error: SystemError, at address: SocketAddress, in surroundings: Surroundings = .ofThisProcess) {
    switch (error.call, address) {
    case (_, .unix(let path)) where path.isAbstract || path.isUnnamed: return nil
    case ("connect", .unix(let path)): self.init(connecting: error, path, surroundings)
    case (_, .unix(let path)): self.init(listening: error, path, surroundings)
    case ("bind", _): self.init(binding: error, port: address.port ?? 0, surroundings)
    case ("connect", _) where error.errno == Errno.addressNotAvailable:
      self.init(.addressNotAvailable, "\(Self.noPort) for another connection to this address")
    case ("connect", _), ("sendto", _), ("sendmsg", _), ("sendmmsg", _): self.init(reaching: error)
    default: return nil
    }
  }

  /// For a failure that has to do with no address; `nil` if the errno is precise enough.
  init?(_ error: SystemError) {
    switch (error.call, error.errno) {
    case (let call, _) where Self.fileCalls.contains(call): self.init(ofFile: error)
    case (let call, Errno.tooManyReferences) where call != "recvmsg":
      self.init(
        .limitExceeded,
        "too many descriptors that were sent wait to be received; wait until peers receive them, or raise the limit (ulimit -n)"
      )
    default: return nil
    }
  }

  /// The kernel refuses to send anything to an IP address. The routing table has special entries that lead to these errors: ip-route(8).
  private init?(reaching error: SystemError) {
    switch error.errno {
    case Errno.permissionDenied, Errno.notPermitted:
      self.init(.permissionDenied, "a route, the firewall or a security policy of this machine prohibits this address")
    case Errno.invalidArgument:
      self.init(
        .unreachable,
        "nothing leaves this machine for this address: a blackhole route discards it, or the local address is one of loopback, "
          + "which only this machine reaches")
    default: return nil
    }
  }

  private static let fileCalls: Set<String> = [
    "open", "rename", "unlink", "rmdir", "mkdir", "readdir", "pread", "pwrite", "pwritev2", "ftruncate", "fsync",
    "fdatasync",
  ]

  private init?(ofFile error: SystemError) {
    switch (error.call, error.errno) {
    case ("open", Errno.noSuchFile): self.init(.pathNotFound, "there is no file at this path")
    case (_, Errno.noSuchFile):
      self.init(.pathNotFound, "there is nothing at this path, or its directory does not exist")
    case (_, Errno.notADirectory): self.init(.pathNotFound, "a component of the path is not a directory")
    case (_, Errno.exists): self.init(.pathExists, "there is something at this path")
    case (_, Errno.notEmpty): self.init(.pathExists, "the directory has something in it")
    case (_, Errno.isDirectory): self.init(.invalidArgument, "there is a directory at this path")
    case ("open", Errno.noSuchDevice):
      self.init(.invalidArgument, "there is a socket at this path, or a device that does not exist")
    case ("rename", Errno.invalidArgument): self.init(.invalidArgument, "a directory cannot be moved into itself")
    case (_, Errno.noSpace): self.init(.diskFull, "the disk has no room")
    case (_, Errno.quotaExceeded): self.init(.diskFull, "the quota of this user is used up")
    case (_, Errno.fileTooLarge): self.init(.limitExceeded, "the file would be too large")
    case (_, Errno.inputOutput): self.init(.diskFailed, "the disk could not read or write")
    default: return nil
    }
  }

  private init(_ code: SocketError.Code, _ detail: String) {
    self.code = code
    self.detail = detail
  }

  private init?(connecting error: SystemError, _ path: UnixPath, _ surroundings: Surroundings) {
    switch error.errno {
    case Errno.connectionRefused:
      guard let kind = surroundings.kind(path, true), kind != .socket else { return nil }
      self.init(.notASocket, "there is \(kind), not a socket")
    case Errno.noSuchFile: self.init(.pathNotFound, "the socket does not exist; is the server running?")
    case Errno.notADirectory: self.init(.pathNotFound, "a component of the path is not a directory")
    case Errno.permissionDenied:
      self.init(
        .permissionDenied,
        "user \(surroundings.userID) may not write to the socket, or may not enter its directory"
      )
    case Errno.wrongType: self.init(.system, "the socket at this path is not a stream socket")
    default: return nil
    }
  }

  private init?(listening error: SystemError, _ path: UnixPath, _ surroundings: Surroundings) {
    let directory = AddressError.quote(path.directory.description)
    switch (error.call, error.errno) {
    case ("bind", Errno.addressInUse):
      guard let kind = surroundings.kind(path, false), kind != .socket else { return nil }
      self.init(.notASocket, "there is \(kind), not a socket; remove it or choose another path")
    case ("bind", Errno.noSuchFile): self.init(.pathNotFound, "the directory \(directory) does not exist")
    case ("bind", Errno.notADirectory): self.init(.pathNotFound, "a component of \(directory) is not a directory")
    case ("bind", Errno.permissionDenied), ("bind", Errno.notPermitted):
      self.init(.permissionDenied, "user \(surroundings.userID) may not make a socket in \(directory)")
    case ("bind", Errno.readOnly): self.init(.permissionDenied, "the file system of \(directory) cannot be written")
    case ("flock", _):
      self.init(
        .addressInUse,
        "an unused socket is in the way, but another program has locked \(directory) and may be about to replace it"
      )
    case ("unlink", _):
      self.init(
        .permissionDenied,
        "an unused socket is in the way, and user \(surroundings.userID) may not remove it from \(directory)")
    default: return nil
    }
  }

  /// The kernel had to choose a port, and no port was free. It reports EADDRINUSE from bind(2) and EADDRNOTAVAIL from connect(2):
  /// ip(7), ip_local_port_range.
  private static var noPort: String { "no local port is free (net.ipv4.ip_local_port_range)" }

  private init?(binding error: SystemError, port: UInt16, _ surroundings: Surroundings) {
    switch error.errno {
    case Errno.addressInUse where port == 0: self.init(.addressNotAvailable, Self.noPort)
    case Errno.addressNotAvailable: self.init(.addressNotAvailable, "no interface of this machine has this address")
    case Errno.permissionDenied:
      let lowest = surroundings.lowestPort()
      guard port > 0, Int(port) < lowest else { return nil }
      self.init(
        .permissionDenied,
        "ports below \(lowest) (net.ipv4.ip_unprivileged_port_start) need the capability CAP_NET_BIND_SERVICE, which "
          + "user \(surroundings.userID) does not have here; choose a higher port or grant it")
    default: return nil
    }
  }
}

extension FailureCause {
  struct Surroundings {
    /// The flag says whether a symbolic link at the end of the path is followed.
    var kind: (UnixPath, Bool) -> FileKind?
    var lowestPort: () -> Int
    /// The effective user of this process.
    var userID: UInt32

    static var ofThisProcess: Surroundings {
      Surroundings(
        kind: { FileKind(at: $0, followingLinks: $1) }, lowestPort: { CurrentProcess.lowestUnprivilegedPort },
        userID: CurrentProcess.userID)
    }
  }
}
