// The names of simulated unix sockets: abstract names, and files. Each kind of socket has abstract names of its own; a path leads to one file.
//
// The files of a host are like those on a disk: they stay when a process or the whole host crashes, and are stale then. Every directory
// exists, paths are compared as text, and there are no permissions.

internal import SocketSystem

struct AbstractName: Hashable {
  let name: UnixPath
  let type: Int32
}

final class SocketFile {
  let inode: UInt64
  /// `nil` if the socket is closed, so that the file is stale.
  weak var socket: UnixSocket?

  init(_ inode: UInt64, _ socket: UnixSocket) {
    self.inode = inode
    self.socket = socket
  }
}

final class SocketFiles {
  private var files: [UnixPath: SocketFile] = [:]
  private var nextInode: UInt64 = 1

  subscript(path: UnixPath) -> SocketFile? { files[path] }

  func make(_ path: UnixPath, for socket: UnixSocket) -> SocketFile {
    let file = SocketFile(nextInode, socket)
    nextInode += 1
    files[path] = file
    return file
  }

  /// unlink(2).
  func remove(_ path: UnixPath) -> Bool { files.removeValue(forKey: path) != nil }
}

extension SimulatedKernel {
  /// bind(2). The unnamed address asks for any free abstract name.
  func bind(_ socket: UnixSocket, toName address: SocketAddress) -> Int32 {
    guard case .unix(let name) = address else { return -Errno.invalidArgument }
    if name.isUnnamed {
      takeFreeName(socket)
      return 0
    }
    // As Linux does: it makes the file before it looks at the socket.
    if !name.isAbstract, socketFiles[name] != nil { return -Errno.addressInUse }
    if socket.local != nil { return -Errno.invalidArgument }
    if name.isAbstract {
      let key = AbstractName(name: name, type: socket.type)
      if abstractNames[key] != nil { return -Errno.addressInUse }
      abstractNames[key] = socket
    } else {
      socket.file = socketFiles.make(name, for: socket)
    }
    socket.local = address
    return 0
  }

  private func takeFreeName(_ socket: UnixSocket) {
    if socket.local != nil { return }
    while true {
      let number = (network?.random(below: 1 << 20) ?? 0) | 1 << 20
      guard let name = UnixPath("@" + String(number, radix: 16).dropFirst()) else { return }
      let key = AbstractName(name: name, type: socket.type)
      if abstractNames[key] != nil { continue }
      abstractNames[key] = socket
      socket.local = .unix(name)
      return
    }
  }

  /// A socket with SO_PASSCRED gets a name before it connects or sends.
  func nameIfCredentialsAreWanted(_ socket: UnixSocket) { if socket.receivesCredentials { takeFreeName(socket) } }

  func socket(named name: UnixPath, type: Int32) -> Result<UnixSocket, SystemError> {
    func failure(_ errno: Int32) -> Result<UnixSocket, SystemError> {
      .failure(SystemError(call: "connect", errno: errno))
    }
    if name.isAbstract {
      return abstractNames[AbstractName(name: name, type: type)].map { .success($0) }
        ?? failure(Errno.connectionRefused)
    }
    guard let file = socketFiles[name] else { return failure(Errno.noSuchFile) }
    guard let socket = file.socket else { return failure(Errno.connectionRefused) }
    return socket.type == type ? .success(socket) : failure(Errno.wrongType)
  }

  /// The file of the socket stays.
  func forgetName(of socket: UnixSocket) {
    socket.file?.socket = nil
    guard case .unix(let name)? = socket.local else { return }
    let key = AbstractName(name: name, type: socket.type)
    if abstractNames[key] === socket { abstractNames[key] = nil }
  }

  /// The process of this host, as the peers of unix sockets see it. Its number changes with each crash.
  var credentials: PeerCredentials { PeerCredentials(processID: Int32(slot) + 1, userID: 1_000, groupID: 1_000) }

  /// SO_PEERCRED.
  func peerCredentials(of socket: SimulatedSocket) -> [UInt8] {
    guard let known = (socket as? UnixStreamSocket)?.credentials else {
      return Int32(0).kernelBytes + Int32(-1).kernelBytes + Int32(-1).kernelBytes
    }
    let (user, group) = (Int32(bitPattern: known.userID), Int32(bitPattern: known.groupID))
    return known.processID.kernelBytes + user.kernelBytes + group.kernelBytes
  }
}
