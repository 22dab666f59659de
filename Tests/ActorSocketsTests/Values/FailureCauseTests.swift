import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct FailureCauseTests {
  private static let path = "/run/my/socket"

  /// The cause of a failure for user 1000, who may not use ports below 1024, if the path is a file of this kind.
  private func cause(_ call: String, _ errno: Int32, at text: String, _ kind: FileKind? = nil) throws -> FailureCause? {
    let surroundings = FailureCause.Surroundings(kind: { _, _ in kind }, lowestPort: { 1024 }, userID: 1000)
    return FailureCause(SystemError(call: call, errno: errno), at: try SocketAddress(parsing: text), in: surroundings)
  }

  @Test(
    arguments: [
      ("bind", Errno.addressInUse, .directory, .notASocket, "there is a directory, not a socket"),
      ("bind", Errno.addressInUse, .regularFile, .notASocket, "there is a regular file"),
      ("bind", Errno.noSuchFile, nil, .pathNotFound, "the directory \"/run/my\" does not exist"),
      ("bind", Errno.notADirectory, nil, .pathNotFound, "a component of \"/run/my\" is not a directory"),
      ("bind", Errno.permissionDenied, nil, .permissionDenied, "user 1000 may not make a socket in \"/run/my\""),
      ("bind", Errno.notPermitted, nil, .permissionDenied, "user 1000 may not make a socket in \"/run/my\""),
      ("bind", Errno.readOnly, nil, .permissionDenied, "the file system of \"/run/my\" cannot be written"),
      ("flock", Errno.wouldBlock, .socket, .addressInUse, "another program has locked \"/run/my\""),
      ("unlink", Errno.notPermitted, .socket, .permissionDenied, "may not remove it from \"/run/my\""),
      ("connect", Errno.connectionRefused, .device, .notASocket, "there is a device, not a socket"),
      ("connect", Errno.noSuchFile, nil, .pathNotFound, "the socket does not exist"),
      ("connect", Errno.notADirectory, nil, .pathNotFound, "a component of the path is not a directory"),
      ("connect", Errno.permissionDenied, .socket, .permissionDenied, "user 1000 may not write to the socket"),
      ("connect", Errno.wrongType, .socket, .system, "not a stream socket"),
    ] as [(String, Int32, FileKind?, SocketError.Code, String)])
  func `A path's failure says what is there`(
    call: String, errno: Int32, kind: FileKind?, code: SocketError.Code, part: String
  ) throws {
    let cause = try #require(try cause(call, errno, at: "unix:" + Self.path, kind))
    #expect(cause.code == code)
    #expect(cause.detail.contains(part), "\(cause.detail)")
  }

  @Test(
    arguments: [
      ("bind", Errno.addressInUse, "unix:/run/my/socket"), ("connect", Errno.connectionRefused, "unix:/run/my/socket"),
      ("listen", Errno.noMemory, "unix:/run/my/socket"), ("bind", Errno.addressInUse, "unix:@name"),
      ("connect", Errno.connectionRefused, "unix:@name"), ("bind", Errno.addressInUse, "127.0.0.1:80"),
      ("bind", Errno.permissionDenied, "127.0.0.1:8080"), ("bind", Errno.permissionDenied, "127.0.0.1:0"),
    ])
  func `Where the error number says it all nothing is added`(call: String, errno: Int32, address: String) throws {
    #expect(try cause(call, errno, at: address, .socket) == nil)
  }

  @Test(
    arguments: [
      ("open", Errno.noSuchFile, .pathNotFound, "there is no file at this path"),
      ("rename", Errno.noSuchFile, .pathNotFound, "or its directory does not exist"),
      ("open", Errno.notADirectory, .pathNotFound, "a component of the path is not a directory"),
      ("mkdir", Errno.exists, .pathExists, "there is something at this path"),
      ("rmdir", Errno.notEmpty, .pathExists, "the directory has something in it"),
      ("open", Errno.isDirectory, .invalidArgument, "there is a directory at this path"),
      ("rename", Errno.invalidArgument, .invalidArgument, "a directory cannot be moved into itself"),
      ("pwrite", Errno.noSpace, .diskFull, "the disk has no room"),
      ("pwritev2", Errno.quotaExceeded, .diskFull, "the quota of this user is used up"),
      ("ftruncate", Errno.fileTooLarge, .limitExceeded, "the file would be too large"),
      ("fdatasync", Errno.inputOutput, .diskFailed, "the disk could not read or write"),
    ] as [(String, Int32, SocketError.Code, String)])
  func `A failure of a file says what has happened`(
    call: String, errno: Int32, code: SocketError.Code, part: String
  ) throws {
    let cause = try #require(FailureCause(SystemError(call: call, errno: errno)))
    #expect(cause.code == code && cause.detail.contains(part), "\(cause.detail)")
    // Other calls have these errors for other reasons.
    #expect(FailureCause(SystemError(call: "epoll_ctl", errno: errno)) == nil)
  }

  @Test(arguments: [("connect", Errno.addressNotAvailable, "127.0.0.1:80"), ("bind", Errno.addressInUse, "[::1]:0")])
  func `The detail says that no local port is free`(call: String, errno: Int32, address: String) throws {
    let cause = try #require(try cause(call, errno, at: address))
    #expect(cause.code == .addressNotAvailable && cause.detail.contains("no local port is free"), "\(cause.detail)")
  }

  @Test(
    arguments: [
      (Errno.permissionDenied, .permissionDenied, "prohibits this address"),
      (Errno.notPermitted, .permissionDenied, "prohibits this address"),
      (Errno.invalidArgument, .unreachable, "a blackhole route discards it"),
    ] as [(Int32, SocketError.Code, String)], ["connect", "sendto", "sendmsg", "sendmmsg"])
  func `The detail says that a route leads nowhere`(error: (Int32, SocketError.Code, String), call: String) throws {
    let (errno, code, part) = error
    for address in ["192.0.2.1:80", "[2001:db8::1]:80"] {
      let cause = try #require(try cause(call, errno, at: address))
      #expect(cause.code == code && cause.detail.contains(part), "\(cause.detail)")
    }
    #expect(try cause(call, errno, at: "unix:@name") == nil)
  }

  @Test(arguments: ["127.0.0.1:80", "[::1]:1023"])
  func `A port that needs a privilege is named with what it needs`(address: String) throws {
    let cause = try #require(try cause("bind", Errno.permissionDenied, at: address))
    #expect(cause.code == .permissionDenied)
    for part in ["ports below 1024", "net.ipv4.ip_unprivileged_port_start", "CAP_NET_BIND_SERVICE", "user 1000"] {
      #expect(cause.detail.contains(part), "\(cause.detail)")
    }
  }

  @Test func `A path from elsewhere cannot break a sentence into lines`() throws {
    let surroundings = FailureCause.Surroundings(kind: { _, _ in nil }, lowestPort: { 0 }, userID: 0)
    let address = SocketAddress.unix(try UnixPath(parsing: "/a\n\u{1b}[31m/socket"))
    let cause = FailureCause(SystemError(call: "bind", errno: Errno.noSuchFile), at: address, in: surroundings)
    #expect(cause?.detail.unicodeScalars.allSatisfy { $0.value >= 32 && $0.value < 127 } == true)
  }
}
