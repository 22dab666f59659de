import ActorSocketsTesting
import Glibc
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

// Accepted and connecting sockets leave a reserve of descriptors for the rest of the process. Each test runs in a process of
// its own, because it changes the limit of descriptors.

@Suite struct DescriptorReserveTests {
  @Test func `A connection that would use the reserve is reset, and the next ones wait`() async {
    await #expect(processExitsWith: .success) {
      try await within("all are accepted") {
        let time = ManualTime()
        let reactor = time.reactor
        let listener = try TCPListener.onLoopback(on: reactor)
        let victim = try await TCPConnection.connect(to: listener.endpoint, reactor: reactor)
        let spare = try await listener.accept()
        let clients = try (0..<4).map { _ in try RawSocket.connected(to: listener.address) }
        var (fillers, limit) = try await leaveOnlyTheReserve()
        let first = Task.immediate { try await listener.accept() }
        let second = Task.immediate { try await listener.accept() }
        let third = Task.immediate { try await listener.accept() }
        await time.advance(by: .seconds(100))
        await #expect(throws: SystemError.self) { try await clients[0].receive() }

        // When a descriptor of the reactor is closed, the listener tries again without waiting.
        await victim.abort()
        #expect(try await first.value.remoteAddress == clients[1].address)
        // However often the listener tries again, it does not reset the connections that wait.
        for _ in 0..<10 { await time.advance(by: .seconds(10)) }
        close(fillers.removeFirst())
        await time.advance(by: .seconds(1))
        #expect(try await second.value.remoteAddress == clients[2].address)
        // A raised limit counts at once.
        limit += 100
        setDescriptorLimit(limit)
        await time.advance(by: .seconds(1))
        #expect(try await third.value.remoteAddress == clients[3].address)
        await spare.abort()
      }
    }
  }

  @Test func `A connect that would use the reserve fails, but a listener or an endpoint may use it`() async {
    await #expect(processExitsWith: .success) {
      try await within("all calls return") {
        let peer = try RawSocket.listening()
        let address = try peer.address
        _ = await TCPConnection(to: .address(address)).state
        var (fillers, _) = try await leaveOnlyTheReserve()
        let before = openDescriptors()
        await expectConnectError(.tooManyOpenFiles, to: .address(address))
        try await eventually("its descriptor is closed") { openDescriptors() == before }
        await (try TCPListener.onLoopback()).close()
        await (try UDPEndpoint.bind(to: .address(.ipv4(.loopback, port: 0)))).close()
        close(fillers.removeFirst())
        await (try await TCPConnection.connect(to: .address(address))).abort()
      }
    }
  }

  @Test func `A server counts the connections that it refuses because descriptors are short`() async {
    await #expect(processExitsWith: .success) {
      try await within("all are served") {
        let listener = try TCPListener.onLoopback()
        let served = Gate()
        let serving = Task {
          try await listener.serve { connection in
            served.open()
            for try await chunk in connection.chunks { try await connection.write(chunk) }
          }
        }
        let busy = try RawSocket.connected(to: listener.address)
        await served.wait()
        let clients = try (0..<3).map { _ in try RawSocket.connected(to: listener.address) }
        for client in clients {
          try client.send("before")
          #expect(try await client.receive(exactly: 6) == Array("before".utf8))
        }
        let late = (0..<3).map { _ in socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0) }.map(RawSocket.init(owning:))
        _ = try await leaveOnlyTheReserve()
        for client in late { _ = try BorrowedDescriptor(client.number).connect(to: listener.address) }
        // The first one is reset. Only one call reports that, which must be its receive, so it does not send.
        for client in late.dropFirst() { try client.send("late") }
        await #expect(throws: SystemError.self) { try await late[0].receive() }
        for (leaving, client) in zip(clients, late.dropFirst()) {
          leaving.finishWriting()
          #expect(try await client.receive(exactly: 4) == Array("late".utf8))
        }
        for client in late + clients + [busy] { client.close() }
        let report = try await serving.stop()
        #expect(report.accepted == 6 && report.finished == 6 && report.refused == 1, "\(report)")
      }
    }
  }

  @Test func `A server without descriptors closes the connections that only wait for their peers`() async {
    await #expect(processExitsWith: .success) {
      try await within("the last one is answered") {
        // Time stands still, so the connections are not closed because they have waited.
        let time = ManualTime()
        let listener = try TCPListener.onLoopback(on: time.reactor)
        let serving = Task { try await listener.serve { try await $0.write(utf8: "answer\n") } }
        let clients = try (0..<5).map { _ in try RawSocket.connected(to: listener.address) }
        for client in clients { #expect(try await client.receiveToEnd() == Array("answer\n".utf8)) }
        try await eventually("all linger") { await listener.server.lingering.count == 5 }
        let late = (0..<2).map { _ in socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0) }.map(RawSocket.init(owning:))
        _ = try await leaveOnlyTheReserve()
        for client in late { _ = try BorrowedDescriptor(client.number).connect(to: listener.address) }
        // The first one touches the reserve. The second one gets the descriptor of a connection that lingered.
        await late[0].expectReset()
        #expect(try await late[1].receiveToEnd() == Array("answer\n".utf8))
        #expect(await listener.server.lingering.count <= 1)
        for client in late + clients { client.close() }
        let report = try await serving.stop()
        #expect(report.finished == 6 && report.refused == 1, "\(report)")
      }
    }
  }

  @Test func `A shortage while a stale socket is examined is a shortage, not an address in use`() async {
    await #expect(processExitsWith: .success) {
      try await within("the listener is refused") {
        let folder = try SocketFolder()
        try RawSocket.bound(to: folder()).close()
        let reactor = Reactor()
        var (fillers, _) = try await leaveOnlyTheReserve()
        // From here on nothing may wait: without descriptors, Swift's pool ends the program.
        while case let filler = dup(2), filler >= 0 { fillers.append(filler) }
        // The socket, the lock of the directory and the file that is held get numbers, but not the question who has the file open.
        for _ in 0..<3 { close(fillers.removeLast()) }
        let error = #expect(throws: SocketError.self) {
          try TCPListener.bind(to: .unix(path: folder()), reactor: reactor)
        }
        for filler in fillers { close(filler) }
        #expect(error?.code == .tooManyOpenFiles && error?.errno == EMFILE, "\(String(describing: error))")
        await (try TCPListener.bind(to: .unix(path: folder()), reactor: reactor)).close()
      }
    }
  }

  @Test func `The default limit of a server leaves room below the limit of the process`() async {
    await #expect(processExitsWith: .success) {
      setDescriptorLimit(200)
      #expect(ServeLimits().connections == 136)
      #expect(ServeLimits(connectionsPerPeer: 5).connections == 136)
      setDescriptorLimit(64)
      #expect(ServeLimits().connections == 32)
      #expect(ServeLimits(connections: 10_000).connections == 10_000)
      setDescriptorLimit(12_000)
      #expect(ServeLimits().connections == 10_000)
    }
  }

  @Test func `The descriptors of Swift's thread pool are open before a server serves its first connection`() async {
    await #expect(processExitsWith: .success) {
      try await within("it is served") {
        let listener = try TCPListener.onLoopback()
        let kinds = Notes<[String]>()
        let serving = Task { try await listener.serve { _ in kinds.add(openKinds()) } }
        _ = try await RawSocket.connected(to: listener.address).receiveToEnd()
        _ = try await serving.stop()
        func count(_ kind: String) -> Int { kinds.all[0].count { $0 == "anon_inode:[\(kind)]" } }
        // The reactor has an epoll instance and an eventfd of its own.
        #expect(count("eventpoll") == 2 && count("eventfd") == 2)
        // There is one timerfd for each of the two clocks.
        #expect(count("timerfd") == 2, "\(kinds.all[0])")
      }
    }
  }
}

/// Lowers the limit so that only the 32 numbers of the reserve are above the numbers in use, and uses up all numbers below the
/// reserve.
///
/// Swift's pool opens files of /proc and /sys for a moment. Each would leave a free number behind, so the function waits until each
/// number is seen in use by something else.
private func leaveOnlyTheReserve() async throws -> (fillers: [Int32], limit: Int) {
  await PoolDescriptors.areOpen()
  // Some numbers may be inherited from the process that runs the tests.
  let end = max(96, (0..<4096 as Range<Int32>).last { fcntl($0, F_GETFD) >= 0 } ?? 0) + 1
  setDescriptorLimit(Int(end) + 32)
  #expect(DescriptorReserve.refresh().first == Int(end))
  var fillers: [Int32] = []
  try await eventually("all numbers are used for good") {
    while true {
      let filler = dup(2)
      if filler < 0 || filler >= end {
        close(filler)
        let kinds = openKinds(below: Int(end))
        return kinds.count == Int(end) && !kinds.contains { $0.hasPrefix("/proc/") || $0.hasPrefix("/sys/") }
      }
      fillers.append(filler)
    }
  }
  return (fillers, Int(end) + 32)
}

/// The targets of the links in /proc/self/fd, which say what the descriptors of this process are.
private func openKinds(below end: Int = 100) -> [String] {
  (0..<end).compactMap { number in
    var text = [CChar](repeating: 0, count: 256)
    // SAFETY: readlink writes no more than the array has room for, and leaves a zero at its end.
    let count = unsafe readlink("/proc/self/fd/\(number)", &text, text.count - 1)
    return count < 0 ? nil : String(decoding: text[..<count].map { UInt8(bitPattern: $0) }, as: UTF8.self)
  }
}
