import ActorSocketsTesting
import EpollReactor
import Glibc
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// The ends of sockets of which another process, or another part of this one, has a duplicate.
@Suite(.endsInTime) struct SharedDescriptorTests {
  /// How the other part has got the duplicate.
  enum Kind: String, CaseIterable, CustomTestStringConvertible {
    case lent, adopted
    case preparedWhenAccepted = "prepared when accepted"
    case preparedWhenConnecting = "prepared when connecting"

    var testDescription: String { rawValue }
  }

  /// A connection, its peer, and a duplicate of its descriptor.
  private static func make(
    _ socket: StreamSocket, _ kind: Kind, on reactor: Reactor = .shared
  ) async throws -> (TCPConnection, peer: RawSocket, duplicate: RawSocket) {
    switch kind {
    case .adopted:
      let (near, far) = try socket.pair()
      let duplicate = RawSocket(owning: dup(near.number))
      return (try TCPConnection.adopt(fileDescriptor: near.release(), reactor: reactor), far, duplicate)
    case .lent:
      // Not an adopted one, of which a duplicate is expected from the beginning.
      let listener = try TCPListener.bind(to: .address(socket.freeAddress()), reactor: reactor)
      let peer = try RawSocket.connected(to: listener.address)
      let connection = try await listener.accept()
      return (connection, peer, try await connection.withFileDescriptor { RawSocket(owning: dup($0)) })
    case .preparedWhenAccepted:
      let (prepared, duplicates) = preparing()
      let listener = try TCPListener.bind(
        to: .address(socket.freeAddress()), configuration: .init { $0.connection = prepared }, reactor: reactor)
      let peer = try RawSocket.connected(to: listener.address)
      return (try await listener.accept(), peer, try #require(duplicates.all.first))
    case .preparedWhenConnecting:
      let (prepared, duplicates) = preparing()
      let listener = try RawSocket.listening(on: socket.freeAddress())
      let connection = try await TCPConnection.connect(
        to: .address(listener.address), configuration: prepared, reactor: reactor)
      return (connection, try await listener.accept(), try #require(duplicates.all.first))
    }
  }

  /// A configuration whose `prepare` duplicates each descriptor.
  private static func preparing() -> (TCPConnection.Configuration, Notes<RawSocket>) {
    let duplicates = Notes<RawSocket>()
    return (.init { $0.prepare = { duplicates.add(RawSocket(owning: dup($0.fileDescriptor))) } }, duplicates)
  }

  @Test(arguments: StreamSocket.allCases, Kind.allCases)
  func `A duplicate does not hide the end from a peer that has ended before`(
    socket: StreamSocket, kind: Kind
  ) async throws {
    let (connection, peer, duplicate) = try await Self.make(socket, kind)
    peer.finishWriting()
    #expect(try await connection.read() == nil)
    try await connection.write(utf8: "bye")
    await connection.close()
    #expect(try await peer.receiveToEnd() == Array("bye".utf8))
    duplicate.close()
  }

  @Test(arguments: StreamSocket.allCases, Kind.allCases)
  func `A duplicate does not hide an abort from the peer`(socket: StreamSocket, kind: Kind) async throws {
    let (connection, peer, duplicate) = try await Self.make(socket, kind)
    await connection.abort()
    do {
      // A unix socket has no reset.
      #expect(try await peer.receiveToEnd() == [] && socket == .unix)
    } catch let error as SystemError {
      #expect(error.errno == ECONNRESET && socket != .unix)
    }
    duplicate.close()
  }

  @Test(arguments: StreamSocket.allCases, Kind.allCases)
  func `A duplicate does not keep a closed connection open for a peer that goes on sending`(
    socket: StreamSocket, kind: Kind
  ) async throws {
    let time = ManualTime()
    let (connection, peer, duplicate) = try await Self.make(socket, kind, on: time.reactor)
    async let closed: Void = connection.close()
    #expect(try await peer.receiveToEnd() == [])
    await time.advance(by: .seconds(2))
    await closed
    try await eventually("sending fails", seconds: 10) {
      do {
        try peer.send([1])
        return false
      } catch let error as SystemError {
        #expect([EPIPE, ECONNRESET].contains(error.errno))
        return true
      }
    }
    duplicate.close()
  }

  /// A duplicate that the socket does not know of: a child has it that was forked without exec.
  private static func duplicate(of registration: Registration) async throws -> RawSocket {
    try await Task(executorPreference: registration.reactor) {
      RawSocket(owning: dup(try #require(registration.socket).number))
    }.value
  }

  @Test(arguments: [StreamSocket.ipv4, .ipv6])
  func `An abort reaches the peer whatever child has inherited the descriptor`(socket: StreamSocket) async throws {
    let listener = try TCPListener.bind(to: .address(socket.freeAddress()))
    let peer = try RawSocket.connected(to: listener.address)
    let connection = try await listener.accept()
    let duplicate = try await Self.duplicate(of: connection.registration)
    await connection.abort()
    await peer.expectReset()
    duplicate.close()
  }

  @Test(arguments: StreamSocket.allCases, [false, true])
  func `A closed listener accepts nothing more, whatever child has inherited its socket`(
    socket: StreamSocket, isDropped: Bool
  ) async throws {
    var listener: TCPListener? = try TCPListener.bind(to: .address(socket.freeAddress()))
    let bound = try #require(listener?.localAddresses[0])
    let duplicate = try await Self.duplicate(of: try #require(listener).sockets[0])
    if !isDropped { await listener?.close() }
    listener = nil
    // Not for long: a listener would fill its backlog, and then connecting fails, too, but not because nothing listens.
    try await eventually("nothing listens there", seconds: 3) {
      do {
        _ = try RawSocket.connected(to: bound)
        return false
      } catch let error as SystemError {
        // A dropped listener closes some time later, and then resets a connection that was made before.
        if isDropped, error.errno == ECONNRESET { return false }
        #expect(error.errno == ECONNREFUSED)
        return true
      }
    }
    duplicate.close()
  }

  @Test(arguments: StreamSocket.allCases)
  func `An adopted listener that is closed goes on listening in the process that it is from`(
    socket: StreamSocket
  ) async throws {
    let original = try RawSocket.listening(on: socket.freeAddress())
    await (try TCPListener.adopt(fileDescriptor: dup(original.number))).close()
    let client = try RawSocket.connected(to: original.address)
    _ = try await original.accept()
    client.close()
  }
}
