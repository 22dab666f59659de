import ActorSockets
import ActorSocketsTesting
import EpollReactor
import Glibc
import SocketSystem
import TestSupport
import Testing

@Suite(.endsInTime) struct CombinationTests {
  @Test func `A closed unix listener that is dropped later leaves its successor's file`() async throws {
    let folder = try SocketFolder()
    var first: TCPListener? = try TCPListener.bind(to: .unix(path: folder()))
    await first?.close()
    let second = try TCPListener.bind(to: .unix(path: folder()))
    first = nil
    await (try TCPConnection.connect(to: .unix(path: folder()))).abort()
    await second.close()
  }

  @Test func `A reset is the reason although a flush waits and the connection closes behind it`() async throws {
    let (connection, peer) = try await RawSocket.stuckPeerOfConnection()
    let flushing = Task.immediate { try await connection.flush(until: .acknowledged) }
    let closing = Task.immediate { await connection.close(after: .pendingWrites) }
    try await eventually("it closes") { await connection.state == .closing }
    peer.reset()
    guard case .reset = try await connection.closed.reason else { Issue.record("no reset"); return }
    await expectError(.connectionReset) { try await flushing.value }
    await closing.value
  }

  @Test func `A flush that the idle timeout ends has timed out, and is seen while it waits`() async throws {
    let time = ManualTime()
    let configuration = TCPConnection.Configuration { $0.liveness.idleTimeout = .seconds(5) }
    let (connection, peer) = try await RawSocket.stuckPeerOfConnection(configuration: configuration, on: time.reactor)
    let flushing = Task.immediate { try await connection.flush(until: .acknowledged) }
    try await eventually("it waits") { await connection.pendingOperations.map(\.kind) == [.flush] }
    await time.advance(by: .seconds(5))
    await expectError(.timedOut) { try await flushing.value }
    peer.close()
  }

  @Test func `A read whose stream can only be read any more hears of the idle timeout`() async throws {
    let time = ManualTime()
    let configuration = TCPConnection.Configuration { $0.liveness.idleTimeout = .seconds(5) }
    let (connection, far) = try StreamSocket.unix.connection(configuration, on: time.reactor)
    shutdown(far.number, Int32(SHUT_RD))
    let reading = Task.immediate { _ = try await connection.read() }
    await expectError(.connectionReset) { try await connection.write([1]) }
    #expect(await connection.status.queuedReads == 1)
    await time.advance(by: .seconds(5))
    await expectError(.timedOut) { try await reading.value }
  }

  @Test func `A file that waits takes nothing of the budget for writes`() async throws {
    let folder = try SocketFolder()
    // SAFETY: the text is valid for the call.
    let number = unsafe open(folder("file"), O_RDWR | O_CREAT | O_CLOEXEC, 0o600)
    let size = 8 << 20
    ftruncate(number, size)
    let (connection, peer) = try RawSocket.peerOfConnection()
    let file = try FileSource(OwnedDescriptor(owning: number))
    let sending = Task.immediate { try await connection.sendFile(file) }
    try await eventually("it waits") { await connection.status.queuedWrites == 1 }
    let trailer = connection.enqueueWrite([1, 2, 3])
    let tooMuch = connection.enqueueWrite(pattern(2 << 20))
    await expectError(.limitExceeded) { try await tooMuch.value }
    let arrived = try await peer.receive(exactly: size + 3)
    #expect(Array(arrived.suffix(4)) == [0, 1, 2, 3])
    try await sending.value
    try await trailer.value
  }

  @Test func `An adopted listener's connections have their options, before it was adopted and after`() async throws {
    let raw = try RawSocket.listening()
    let address = try raw.address
    var clients = [try RawSocket.connected(to: address)]
    let listener = try TCPListener.adopt(fileDescriptor: raw.number)
    _ = raw.release()
    var accepted = [try await listener.accept()]
    for _ in 0..<2 {
      // It waits for this one, so that it has found its backlog empty.
      let accepting = Task.immediate { try await listener.accept() }
      _ = try await listener.get(.reuseAddress)
      clients.append(try RawSocket.connected(to: address))
      accepted.append(try await accepting.value)
    }
    for connection in accepted {
      #expect(try await connection.get(.noDelay))
      #expect(try await connection.get(.keepAliveIdle) == .seconds(60))
    }
  }

  @Test func `A reactor that goes in the turn in which bytes moved leaves nothing`() async throws {
    let configuration = TCPConnection.Configuration { $0.liveness.idleTimeout = .seconds(5) }
    let before = openDescriptors()
    for _ in 0..<50 {
      let (near, far) = try RawSocket.pair()
      let reactor = Reactor()
      let connection = try TCPConnection.adopt(
        fileDescriptor: near.release(), configuration: configuration, reactor: reactor)
      await Task(executorPreference: reactor) {
        try? await connection.write([1])
        await connection.abort()
      }.value
      far.close()
    }
    try await eventually("they are gone") { openDescriptors() <= before + 2 }
  }

  @Test func `A pipe that is cancelled again and again leaves one chunk at most`() async throws {
    let (source, feeder) = try RawSocket.peerOfConnection()
    let (destination, peer) = try await RawSocket.stuckPeerOfConnection()
    let feeding = Task.detached { while (try? feeder.send(pattern(65_536))) != nil {} }
    for _ in 0..<50 {
      let piping = Task.immediate { _ = try await pipe(from: source, to: destination) }
      for _ in 0..<10 { await Task.yield() }
      piping.cancel()
      do { try await piping.value } catch is CancellationError {}
    }
    #expect(await destination.status.unsentBytes <= 65_536)
    await source.abort()
    await destination.abort()
    peer.close()
    await feeding.value
  }

  private final class Nosy: ReactorObserver {
    let reactor: Reactor
    init(_ reactor: Reactor) { self.reactor = reactor }
    deinit { _ = reactor.observer }
  }

  @Test func `An observer may look at its reactor when it goes`() async throws {
    let reactor = Reactor()
    reactor.observer = Nosy(reactor)
    reactor.observer = nil
    #expect(reactor.observer == nil)
  }
}
