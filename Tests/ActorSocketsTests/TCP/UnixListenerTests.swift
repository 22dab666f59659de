import ActorSockets
import Glibc
import SocketSystem
import TestSupport
import Testing

@Suite(.endsInTime, .tags(.manualMemory)) struct UnixListenerTests {
  private let folder: SocketFolder

  init() throws { folder = try SocketFolder() }

  /// Checks that whoever connects to the path reaches this listener.
  private func expectAnswer(of listener: TCPListener, at path: String) async throws {
    let client = try await TCPConnection.connect(to: .unix(path: path))
    let server = try await listener.accept()
    try await server.write([42])
    #expect(try await client.read(exactly: 1) == [42])
    await client.abort()
    await server.abort()
  }

  /// Listens at a path whose socket was closed just now: a child process may have it until it has become another program.
  private func bindWhenFree(_ path: String) async throws -> TCPListener {
    var listener: TCPListener?
    try await eventually("nobody has the socket open") {
      listener = try? TCPListener.bind(to: .unix(path: path))
      return listener != nil
    }
    return try #require(listener)
  }

  // MARK: Obstacles

  @Test(arguments: [SOCK_STREAM, SOCK_DGRAM, SOCK_SEQPACKET])
  func `A socket that no program has open any more is replaced`(type: __socket_type) async throws {
    let path = folder()
    try RawSocket.bound(to: path, type: type).close()
    #expect(FileFacts(path) != nil)
    let listener = try await bindWhenFree(path)
    try await expectAnswer(of: listener, at: path)
    await listener.close()
    #expect(FileFacts(path) == nil)
  }

  enum Live: CaseIterable { case listening, full, bound, datagram, sequence }

  @Test(arguments: Live.allCases)
  func `A socket that a program has open is left in place, and hears nothing of it`(live: Live) async throws {
    let path = folder()
    let address = SocketAddress.unix(try UnixPath(parsing: path))
    var clients: [RawSocket] = []
    let other: RawSocket
    switch live {
    case .listening, .full: other = try RawSocket.listening(backlog: 0, on: address)
    case .bound: other = try RawSocket.bound(to: path)
    case .datagram: other = try RawSocket.bound(to: path, type: SOCK_DGRAM)
    case .sequence: other = try RawSocket.bound(to: path, type: SOCK_SEQPACKET)
    }
    if live == .full { clients.append(try RawSocket.connected(to: address)) }
    let before = FileFacts(path)
    let error = await expectError(.addressInUse) { _ = try TCPListener.bind(to: .unix(path: path)) }
    #expect(error.description.contains(path), "\(error)")
    #expect(FileFacts(path) == before && before != nil)
    if live == .listening {
      try BorrowedDescriptor(other.number).makeNonblocking()
      let noConnection = try BorrowedDescriptor(other.number).accept() == nil
      #expect(noConnection)
    }
    #expect(clients.count == (live == .full ? 1 : 0))
    other.close()
    try await expectAnswer(of: bindWhenFree(path), at: path)
  }

  enum Obstacle: String, CaseIterable {
    case directory = "a directory"
    case file = "a regular file"
    case pipe = "a pipe"
    case deadLink = "a symbolic link"
    case linkToStaleSocket = "a symbolic link "

    func make(at path: String, in folder: SocketFolder) throws {
      // SAFETY: the texts are valid for the calls.
      switch self {
      case .directory: #expect(unsafe mkdir(path, 0o700) == 0)
      case .file: close(unsafe creat(path, 0o600))
      case .pipe: #expect(unsafe mkfifo(path, 0o600) == 0)
      case .deadLink: #expect(unsafe symlink("/nonexistent", path) == 0)
      case .linkToStaleSocket:
        try RawSocket.bound(to: folder("stale")).close()
        #expect(unsafe symlink(folder("stale"), path) == 0)
      }
    }
  }

  @Test(arguments: Obstacle.allCases)
  func `A file that is not a socket is left in place, and the error says what it is`(obstacle: Obstacle) async throws {
    let path = folder()
    try obstacle.make(at: path, in: folder)
    let before = FileFacts(path)
    let error = await expectError(.notASocket) { _ = try TCPListener.bind(to: .unix(path: path)) }
    #expect(error.description.contains("there is \(obstacle.rawValue.trimmingSpaces), not a socket"), "\(error)")
    #expect(FileFacts(path) == before && before != nil)
    #expect(obstacle != .linkToStaleSocket || FileFacts(folder("stale")) != nil)
  }

  @Test(arguments: [Obstacle.directory, .file, .pipe])
  func `Connecting to what is no socket says so`(obstacle: Obstacle) async throws {
    let path = folder()
    try obstacle.make(at: path, in: folder)
    let error = await expectConnectError(.notASocket, to: .unix(path: path))
    #expect(error.description.contains("there is \(obstacle.rawValue), not a socket"), "\(error)")
  }

  @Test func `A missing socket is told from one that refuses`() async throws {
    let path = folder()
    var error = await expectConnectError(.pathNotFound, to: .unix(path: path))
    #expect(error.description.contains("the socket does not exist"), "\(error)")
    try RawSocket.bound(to: path).close()
    error = await expectConnectError(.connectionRefused, to: .unix(path: path))
    #expect(error.description.contains("no process listens at this address"), "\(error)")
    error = await expectError(.pathNotFound) { _ = try TCPListener.bind(to: .unix(path: folder("none/socket"))) }
    #expect(error.description.contains("the directory \"\(folder("none"))\" does not exist"), "\(error)")
    error = await expectError(.pathNotFound) { _ = try TCPListener.bind(to: .unix(path: path + "/socket")) }
    #expect(error.description.contains("\"\(path)\" is not a directory"), "\(error)")
    let long = folder(String(repeating: "x", count: 100))
    for attempt in [{ _ = try TCPListener.bind(to: .unix(path: long)) }, { _ = try Endpoint(parsing: "unix:" + long) }]
    {
      await expectError(.invalidArgument, saying: "bytes, where the kernel takes 107 at the most") { try attempt() }
    }
  }

  // MARK: Several servers

  @Test func `Of many that start at one stale path exactly one wins, and it answers`() async throws {
    for round in 0..<500 {
      let path = folder()
      if round % 4 != 0 { try RawSocket.bound(to: path).close() }
      let (ready, start) = (Locked(0), Gate())
      let listeners = try await withThrowingTaskGroup(of: TCPListener?.self) { group in
        for _ in 0..<6 {
          group.addTask {
            try await onThread {
              ready.withLock { $0 += 1 }
              while !start.isOpen { sched_yield() }
              do {
                return try TCPListener.bind(to: .unix(path: path))
              } catch let error as SocketError where error.code == .addressInUse {
                return nil
              }
            }
          }
        }
        try await eventually("all are at the start") { ready.withLock { $0 == 6 } }
        start.open()
        return try await group.reduce(into: []) { $0 += $1.map { [$0] } ?? [] }
      }
      #expect(listeners.count == 1, "round \(round)")
      // One of several may be out of reach, and would wait for ever.
      guard let winner = listeners.first, listeners.count == 1 else { return }
      try await expectAnswer(of: winner, at: path)
      await winner.close()
      #expect(FileFacts(path) == nil)
    }
  }

  @Test func `While a directory is locked nothing is removed, but what is free can be bound`() async throws {
    // SAFETY: the text is valid for the call.
    let directory = unsafe open(folder.path, O_RDONLY | O_DIRECTORY | O_CLOEXEC)
    defer { close(directory) }
    #expect(flock(directory, LOCK_EX | LOCK_NB) == 0)
    let path = folder()
    try RawSocket.bound(to: path).close()
    let before = FileFacts(path)
    let error = await expectError(.addressInUse) { _ = try TCPListener.bind(to: .unix(path: path)) }
    #expect(error.description.contains("another program has locked \"\(folder.path)\""), "\(error)")
    #expect(FileFacts(path) == before && before != nil)
    try await expectAnswer(of: TCPListener.bind(to: .unix(path: folder("free"))), at: folder("free"))
    #expect(flock(directory, LOCK_UN) == 0)
    try await expectAnswer(of: TCPListener.bind(to: .unix(path: path)), at: path)
    // Nor is the lock kept.
    #expect(flock(directory, LOCK_EX | LOCK_NB) == 0)
  }

  @Test func `A listener removes only its own file`() async throws {
    let path = folder()
    let first = try TCPListener.bind(to: .unix(path: path))
    // As a server does that removes whatever is there.
    // SAFETY: the text is valid for the call.
    #expect(unsafe unlink(path) == 0)
    let second = try TCPListener.bind(to: .unix(path: path))
    await first.close()
    try await expectAnswer(of: second, at: path)
    await second.close()
    #expect(folder.names == [])
  }

  // MARK: Relative paths, in processes of their own, because the directory belongs to the whole process

  @Test func `The file of a relative path is removed, although the program changed its directory`() async {
    await #expect(processExitsWith: .success) {
      try await within("all are closed") {
        let folder = try SocketFolder()
        // SAFETY: the texts are valid for the calls.
        #expect(unsafe chdir(folder.path) == 0)
        let listener = try TCPListener.bind(to: .unix(path: "stream"), configuration: .init { $0.permissions = 0o600 })
        let endpoint = try UDPEndpoint.bind(to: .unix(path: "./datagrams"))
        let bytes = try UDPEndpoint.bind(to: .address(.unix(UnixPath(bytes: [0xff]))))
        #expect(folder.names.count == 3)
        let client = try await TCPConnection.connect(to: .unix(path: "stream"))
        #expect(unsafe chdir("/") == 0)
        await listener.close()
        #expect(!folder.names.contains("stream"))
        await endpoint.close()
        await bytes.close()
        #expect(folder.names == [])
        await client.close()
      }
    }
  }

  @Test func `A stale socket at a relative path is replaced, and its file is removed`() async {
    await #expect(processExitsWith: .success) {
      try await within("it is closed") {
        let folder = try SocketFolder()
        // SAFETY: the texts are valid for the calls.
        #expect(unsafe chdir(folder.path) == 0)
        try RawSocket.bound(to: "stream").close()
        let listener = try TCPListener.bind(to: .unix(path: "stream"))
        #expect(folder.names == ["stream"])
        #expect(unsafe chdir("/") == 0)
        await listener.close()
        #expect(folder.names == [])
      }
    }
  }

  // MARK: Permissions

  @Test func `A user without the right is told which right it is`() async {
    await #expect(processExitsWith: .success) {
      let folder = try SocketFolder()
      let (stale, live) = (folder("stale"), folder("live"))
      try RawSocket.bound(to: stale).close()
      let listener = try RawSocket.listening(on: .unix(UnixPath(parsing: live)))
      // SAFETY: the texts are valid for the calls.
      for path in [live, stale] { #expect(unsafe chmod(path, path == live ? 0o400 : 0o666) == 0) }
      // Whoever runs this is not root from here on, and may not write in the folder.
      #expect(unsafe chmod(folder.path, 0o555) == 0)
      if geteuid() == 0 { #expect(seteuid(65_534) == 0) }

      var error = await expectError(.permissionDenied) { _ = try TCPListener.bind(to: .unix(path: folder("new"))) }
      #expect(error.description.contains("user \(geteuid()) may not make a socket in \"\(folder.path)\""), "\(error)")
      error = await expectError(.permissionDenied) { _ = try TCPListener.bind(to: .unix(path: stale)) }
      #expect(error.description.contains("may not remove it from \"\(folder.path)\""), "\(error)")
      error = await expectConnectError(.permissionDenied, to: .unix(path: live))
      #expect(error.description.contains("user \(geteuid()) may not write to the socket"), "\(error)")
      if CurrentProcess.lowestUnprivilegedPort > 1 {
        error = await expectError(.permissionDenied) { _ = try TCPListener.bind(to: .host("127.0.0.1", port: 1)) }
        #expect(error.description.contains("CAP_NET_BIND_SERVICE"), "\(error)")
      }
      listener.close()
      // Or the folder would stay.
      _ = seteuid(getuid())
    }
  }

  @Test func `A directory that can be written but not read needs no lock`() async {
    await #expect(processExitsWith: .success) {
      if geteuid() == 0 { #expect(seteuid(65_534) == 0) }
      let folder = try SocketFolder()
      try RawSocket.bound(to: folder()).close()
      // SAFETY: the text is valid for the calls.
      #expect(unsafe chmod(folder.path, 0o300) == 0)
      let listener = try TCPListener.bind(to: .unix(path: folder()))
      _ = try RawSocket.connected(to: .unix(UnixPath(parsing: folder())))
      await listener.close()
      #expect(unsafe chmod(folder.path, 0o700) == 0)
      #expect(folder.names == [])
      // What looks for leaks at the end needs the rights back.
      _ = seteuid(getuid())
    }
  }

  @Test(arguments: [0o600, 0o660, 0o666, 0o777] as [UInt16], [0o000, 0o022, 0o077] as [UInt32])
  func `The file has the permissions asked for, and no others at any time`(permissions: UInt16, mask: UInt32) async {
    await #expect(processExitsWith: .success) { [permissions, mask] in
      umask(mask)
      let folder = try SocketFolder()
      let path = folder()
      let configuration = TCPListener.Configuration { $0.permissions = permissions }
      let done = Gate()
      let seen = Task {
        try await onThread {
          var seen: Set<UInt32> = []
          while !done.isOpen { if let facts = FileFacts(path) { seen.insert(facts.permissions) } }
          return seen
        }
      }
      try await within("the file was looked at") {
        for _ in 0..<200 {
          let listener = try TCPListener.bind(to: .unix(path: path), configuration: configuration)
          #expect(FileFacts(path)?.permissions == UInt32(permissions))
          await listener.close()
        }
      }
      done.open()
      let wider = try await seen.value.filter { $0 & ~UInt32(permissions) != 0 }
      #expect(wider == [], "\(wider.map { String($0, radix: 8) })")
    }
  }

  @Test func `Invalid permissions are refused, and abstract names have no permissions`() async throws {
    var configuration = TCPListener.Configuration { $0.permissions = 0o1777 }
    await expectError(.invalidArgument, saying: "0o1777") {
      _ = try TCPListener.bind(to: .unix(path: folder()), configuration: configuration)
    }
    configuration.permissions = 0o600
    let name = "@" + folder()
    let listener = try TCPListener.bind(to: .unix(path: name), configuration: configuration)
    try await expectAnswer(of: listener, at: name)
    #expect(folder.names == [])
  }
}

extension String {
  fileprivate var trimmingSpaces: String { String(split(separator: " ").joined(separator: " ")) }
}
