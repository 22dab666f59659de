import ActorSockets
import Foundation
import TestSupport
import Testing

/// A server whose system calls strace(1) tampers with: interrupted calls, late returns, false readiness.
@Suite(.needs(.strace), .endsInTime) struct FaultInjectionTests {
  private struct Log {
    let file: URL

    var lines: [Substring] {
      get throws { try String(contentsOf: file, encoding: .utf8).split(separator: "\n") }
    }

    /// The number of lines with this mark, which strace puts on calls that it tampered with.
    func count(_ mark: String) throws -> Int { try lines.count { $0.contains(mark) } }

    /// The sends for which there was not enough room: the kernel took only a part of their bytes, or nothing.
    func countSendsWithoutRoom() throws -> Int {
      try lines.count { line in
        let parts = line.split(separator: ", ")
        guard line.contains(" sendto("), parts.count > 3, let result = line.split(separator: " = ").last,
          let asked = Int(parts[parts.count - 4])
        else { return false }
        if result.hasPrefix("-1 EAGAIN") { return true }
        return Int(result.prefix { $0.isNumber }).map { $0 < asked } ?? false
      }
    }

    /// Checks that each interrupted call of a thread is followed by the same call.
    func expectRetries(of call: String) throws {
      var interrupted: Set<Substring> = []
      for line in try lines {
        let thread = line.prefix { $0 != " " }
        if interrupted.remove(thread) != nil {
          #expect(line.contains(" \(call)("), "after an interrupted \(call): \(line)")
        }
        if line.contains("EINTR"), line.contains(call) { interrupted.insert(thread) }
      }
    }
  }

  private func start(
    _ command: [String], in folder: Folder, input: Program.Input = .nothing, _ options: [String]
  ) async throws -> (Program, Log) {
    let log = Log(file: folder.file("log"))
    let tracer = ["-D", "-f", "-qq", "-o", log.file.path] + options.flatMap { ["-e", $0] }
    return (try await Program(.strace, tracer + [Tool.sockcat.url.path] + command, input: input), log)
  }

  /// Starts `sockcat` under strace, until it listens.
  private func listening(
    _ command: [String], in folder: Folder, _ options: String...
  ) async throws -> (Program, Endpoint, Log) {
    let (server, log) = try await start(command, in: folder, options)
    let (_, address) = try await Program.announced(server)
    return (server, try Endpoint(parsing: address), log)
  }

  /// Sends bytes through an echo and checks what comes back. Reads when `beforeReading` has returned.
  private func echo(
    _ count: Int, through server: Endpoint, _ configuration: TCPConnection.Configuration = .init(),
    beforeReading: () async throws -> Void = {}
  ) async throws {
    let connection = try await TCPConnection.connect(to: server, configuration: configuration)
    let bytes = (0..<count).map { UInt8(truncatingIfNeeded: $0 % 251) }
    let writing = Task.immediate {
      try await connection.write(bytes)
      try await connection.finishWriting()
    }
    try await beforeReading()
    #expect(try await connection.read(exactly: count) == bytes)
    #expect(try await connection.read(upTo: 1) == nil)
    try await writing.value
    await connection.close()
  }

  @Test(arguments: ["recvfrom", "sendto", "accept4", "epoll_wait"], ["pool", "reactor"])
  func `A call that is interrupted is repeated at once, and no byte is lost`(call: String, place: String) async throws {
    let folder = try Folder()
    let (server, address, log) = try await listening(
      ["listen", "127.0.0.1:0", "--echo", "--on", place], in: folder,
      "trace=epoll_wait,\(call)", "inject=\(call):error=EINTR:when=1+2")
    for _ in 0..<3 { try await echo(300_000, through: address) }
    try await server.stop()
    #expect(try log.count("(INJECTED)") > 2)
    if call != "epoll_wait" { try log.expectRetries(of: call) }
  }

  @Test(arguments: ["EINTR", "ENOSYS", "EPERM"])
  func `A deadline below a millisecond is waited for with nanoseconds, or with milliseconds where that is not possible`(
    error: String
  ) async throws {
    let folder = try Folder()
    let (server, address, log) = try await listening(
      ["listen", "127.0.0.1:0", "--echo", "--idle-timeout", "0.0009"], in: folder,
      "trace=epoll_pwait2", "inject=epoll_pwait2:error=\(error):when=1")
    func connectUntilIdle() async throws {
      let connection = try await TCPConnection.connect(to: address)
      _ = try? await connection.read(upTo: 1)
      await connection.close()
    }
    // On a busy machine, a deadline may have passed before the reactor would wait for it.
    try await eventually("the reactor waits") {
      try await connectUntilIdle()
      return try log.count("epoll_pwait2(") > 0
    }
    for _ in 0..<5 { try await connectUntilIdle() }
    try await server.stop()
    #expect(try error == "EINTR" || log.count("epoll_pwait2(") == 1, "a call that is not possible is made once")
  }

  @Test(arguments: ["recvmmsg", "sendmmsg"])
  func `A call for datagrams that is interrupted is repeated at once`(call: String) async throws {
    let folder = try Folder()
    let (server, address, log) = try await listening(
      ["udp-listen", "127.0.0.1:0", "--echo"], in: folder,
      // Between an interrupted call and the next one, the endpoint does not ask for reported errors.
      "trace=epoll_wait,recvmsg,\(call)", "inject=\(call):error=EINTR:when=1+2")
    let client = try await UDPEndpoint.connect(to: address)
    for number in 0..<50 as Range<UInt8> {
      try await client.send([number])
      #expect(try await client.receive().bytes == [number])
    }
    await client.close()
    try await server.stop()
    try log.expectRetries(of: call)
    #expect(try log.count("(INJECTED)") > 10)
  }

  @Test func `A send of a datagram that is interrupted is made again at once`() async throws {
    let folder = try Folder()
    let input = folder.file("input")
    try Data((0..<50).map { "\($0)\n" }.joined().utf8).write(to: input)
    let server = try UDPEndpoint.bind(to: .address(.ipv4(.loopback, port: 0)))
    let (client, log) = try await start(
      ["udp-send", "\(server.localAddresses[0])"], in: folder, input: .file(input),
      ["trace=sendto,recvmsg", "inject=sendto:error=EINTR:when=1+2"])
    for number in 0..<50 {
      let text = String(decoding: try await server.receive().bytes, as: UTF8.self)
      #expect(text.trimmingCharacters(in: .newlines) == "\(number)")
    }
    #expect(try await client.exitStatus() == 0)
    try log.expectRetries(of: "sendto")
    #expect(try log.count("(INJECTED)") > 10)
    await server.close()
  }

  @Test func `An interrupted close is not repeated`() async throws {
    let folder = try Folder()
    // strace counts the calls of each thread, and the first ones of the main thread are the dynamic linker's, hence
    // `when=40+`. strace does not carry out a call that it makes fail, so the descriptor stays open and its number is not
    // reused: a second close of the same number is a repeated one.
    let (server, address, log) = try await listening(
      ["listen", "127.0.0.1:0", "--echo"], in: folder, "trace=close", "inject=close:error=EINTR:when=40+")
    for _ in 0..<80 {
      let connection = try await TCPConnection.connect(to: address)
      try await connection.write([1])
      #expect(try await connection.read(exactly: 1) == [1])
      await connection.abort()
    }
    try await server.stop()
    let closed = try log.lines.filter { $0.contains("(INJECTED)") }.map { $0.drop { $0 != "(" }.prefix { $0 != ")" } }
    #expect(closed.count > 20)
    #expect(Set(closed).count == closed.count, "\(closed)")
  }

  /// The server stops behind its probe, which finds that no program has the stale socket open.
  @Test func `A socket file that has replaced a stale one is left in place`() async throws {
    let folder = try Folder()
    let path = folder.file("socket").path
    let address = SocketAddress.unix(try UnixPath(parsing: path))
    try RawSocket.listening(on: address).close()
    let (server, log) = try await start(
      ["listen", "unix:\(path)", "--echo"], in: folder, ["trace=connect", "inject=connect:signal=SIGSTOP:when=1"])
    try await eventually("the server has probed the socket") {
      try FileManager.default.fileExists(atPath: log.file.path) && log.count("stopped by SIGSTOP") > 0
    }
    #expect(try log.count("ECONNREFUSED") == 1)
    try FileManager.default.removeItem(atPath: path)
    let live = try RawSocket.listening(on: address)
    await server.kill(SIGCONT)
    #expect(try await server.exitStatus() == 1)
    #expect(await server.errors.whole.contains("in use"))
    let client = try RawSocket.connected(to: address)
    live.close()
    client.close()
  }

  @Test(arguments: ["pool", "reactor"])
  func `Stopping and continuing a server again and again loses no byte`(place: String) async throws {
    let (server, text) = try await Program.listening(["127.0.0.1:0", "--echo", "--on", place])
    let address = try Endpoint(parsing: text)
    let storm = Task {
      var count = 0
      while !Task.isCancelled {
        // A wait that is stopped and continued ends with EINTR: signal(7).
        await server.kill(SIGSTOP)
        await server.kill(SIGCONT)
        await Task.yield()
        count += 1
      }
      return count
    }
    for _ in 0..<5 { try await echo(1_000_000, through: address) }
    storm.cancel()
    #expect(await storm.value > 0)
    try await server.stop()
  }

  @Test(arguments: ["recvfrom", "sendto", "epoll_wait"], ["pool", "reactor"])
  func `An edge that comes while a call returns late is not lost`(call: String, place: String) async throws {
    let folder = try Folder()
    let (server, address, log) = try await listening(
      ["listen", "127.0.0.1:0", "--echo", "--on", place], in: folder,
      "trace=\(call)", "inject=\(call):delay_exit=2000")
    let connection = try await TCPConnection.connect(to: address)
    var random = SeededRandom(seed: 6)
    // Many writes at once, so that bytes and room arrive in the 2 ms between the kernel's work and the return of the call.
    for _ in 0..<40 {
      let count = Int.random(in: 1...20, using: &random)
      for number in 0..<count { try await connection.write([UInt8(number)]) }
      #expect(try await connection.read(exactly: count) == (0..<count).map { UInt8($0) })
    }
    await connection.close()
    // A peer with little room: the first sends to it take only a part, and the rest waits for an edge.
    var narrow = TCPConnection.Configuration()
    narrow.prepare = { socket in
      try socket.set(.receiveBufferSize, to: 4096)
      try socket.set(.maximumSegmentSize, to: 500)
    }
    for _ in 0..<10 { try await echo(200_000, through: address, narrow) }
    for _ in 0..<3 where call == "sendto" {
      let before = try log.countSendsWithoutRoom()
      try await echo(6_000_000, through: address, narrow) {
        try await eventually("the server has no room") { try log.countSendsWithoutRoom() > before }
      }
    }
    try await server.stop()
    #expect(try log.count("(DELAYED)") > 20)
  }

  @Test func `Bytes that a false EAGAIN hid are received at the next event`() async throws {
    let folder = try Folder()
    let (server, address, log) = try await listening(
      ["listen", "127.0.0.1:0", "--echo", "--on", "reactor"], in: folder,
      "trace=recvfrom", "inject=recvfrom:error=EAGAIN:when=1..5")
    let connection = try await TCPConnection.connect(to: address)
    for number in 1...5 {
      try await connection.write([UInt8(number)])
      try await eventually("false EAGAIN number \(number)") { try log.count("(INJECTED)") >= number }
    }
    // The server does not spin on a socket that is reported empty: it makes one call for each event.
    let calls = try log.lines.filter { $0.contains(" recvfrom(") }
    #expect(calls.count == 5, "\(calls)")
    try await connection.write([6])
    #expect(try await connection.read(exactly: 6) == [1, 2, 3, 4, 5, 6])
    await connection.close()
    try await server.stop()
  }

  @Test(
    .needs(.env),
    arguments: ["CloseRaceTests", "ConnectRaceTests", "CloseTests", "ShutdownTests", "DescriptorPassingTests"])
  func `No call uses a descriptor that is closed already`(suite: String) async throws {
    let folder = try Folder()
    let log = Log(file: folder.file("log"))
    let tests = try await Program(
      .env,
      [
        "ACTORSOCKETS_ROUNDS=100", Tool.strace.url.path, "-f", "-qq", "-Z", "-e", "trace=%desc,%network", "-o",
        log.file.path, ownProgram.path, "--testing-library", "swift-testing", "--no-parallel", "--filter",
        "\\.\(suite)/",
      ])
    let status = try await tests.exitStatus()
    let printed = await tests.output.whole
    #expect(status == 0, "\(printed)")
    // Other calls that fail are logged: every program looks for files that do not exist.
    #expect(try log.count("ENOENT") > 0)
    #expect(try log.lines.filter { $0.contains("EBADF") } == [])
  }
}
