import ActorSockets
import ActorSocketsTLS
import ActorSocketsTesting
import Glibc
import SocketSystem
import TestSupport
import Testing

enum ReadingStyle: String, CaseIterable, CustomTestStringConvertible {
  case any, one, exact, enqueued, chunks, messages, lent, peeked, piped

  var testDescription: String { rawValue }

  func bytes(of connection: TCPConnection) async throws -> [UInt8] {
    var bytes: [UInt8] = []
    switch self {
    case .any: return try await connection.readToEnd()
    case .one: while let more = try await connection.read(upTo: 1) { bytes += more }
    case .exact:
      do { while true { bytes += try await connection.read(exactly: 1) } } catch let error as SocketError {
        #expect(error.code == .endOfStream)
      }
    case .enqueued:
      while let more = try await connection.enqueueRead(.upTo(2)).value { bytes += more }
    case .chunks: for try await chunk in connection.chunks() { bytes += chunk }
    case .messages: for try await message in connection.messages(ofLength: 1) { bytes += message }
    case .lent:
      while let more = try await connection.withBytes(
        upTo: 100,
        { span, consumed in
          consumed = span.count
          return [UInt8](copying: span)
        })
      {
        bytes += more
      }
    case .peeked:
      while let seen = try await connection.peek() {
        #expect(try await connection.read(exactly: 1) == Array(seen.prefix(1)))
        bytes += seen.prefix(1)
      }
    case .piped:
      let (inner, outer) = InMemoryConnection.pair()
      async let received = outer.readToEnd()
      _ = try await pipe(from: connection, to: inner)
      bytes = try await received
    }
    return bytes
  }
}

/// Urgent bytes that a peer sends: MSG_OOB of send(2).
@Suite(.endsInTime) struct UrgentByteTests {
  @Test(arguments: StreamSocket.allCases, ReadingStyle.allCases)
  func `An urgent byte anywhere loses no byte of a connection that closes at the end`(
    socket: StreamSocket, style: ReadingStyle
  ) async throws {
    let text = Array("abcdef".utf8)
    for place in 0...text.count {
      for waits in [false, true] {
        try await within("everything is read, with the urgent byte after \(place) bytes") {
          let (connection, peer) = try socket.connection(.init { $0.closesOnEndOfStream = true })
          let reading = waits ? Task.immediate { try await style.bytes(of: connection) } : nil
          try peer.send(Array(text[..<place]))
          try peer.sendUrgent(33)
          try peer.send(Array(text[place...]))
          peer.finishWriting()
          if !waits { try await eventually("the peer's end is seen") { connection.hasPeerFinished } }
          let bytes = if let reading { try await reading.value } else { try await style.bytes(of: connection) }
          #expect(bytes == text, "the urgent byte came after \(place) bytes")
          #expect(try await "\(connection.closed.reason)" == "remote")
          #expect(try await peer.receiveToEnd() == [])
        }
      }
    }
  }

  @Test(arguments: StreamSocket.allCases)
  func `An urgent byte does not keep a connection open that closes at the end`(socket: StreamSocket) async throws {
    let (connection, peer) = try socket.connection(.init { $0.closesOnEndOfStream = true })
    try peer.sendUrgent(33)
    peer.finishWriting()
    // The test does not read: a read would not return the byte.
    #expect(try await "\(connection.closed.reason)" == "remote")
  }

  @Test(arguments: StreamSocket.allCases)
  func `Bytes after an urgent byte do not turn a close into a reset`(socket: StreamSocket) async throws {
    for place in 0...2 {
      try await within("the peer finds the end") {
        let (connection, peer) = try socket.connection()
        try peer.send(Array("ab".utf8[..<"ab".utf8.index("ab".startIndex, offsetBy: place)]))
        try peer.sendUrgent(33)
        try peer.send("cd")
        if place > 0 { #expect(try await connection.read(exactly: place).count == place) }
        try await connection.write(utf8: "bye")
        let closing = Task { await connection.close() }
        #expect(try await peer.receiveToEnd() == Array("bye".utf8))
        peer.finishWriting()
        await closing.value
      }
    }
  }

  @Test func `An urgent byte between the records of TLS loses nothing`() async throws {
    let pair = try await Transport.tls.pair { $0.closesOnEndOfStream = true }
    let client = try #require(pair.client as? TLSConnection)
    for piece in ["abc", "def"] {
      try await client.write(utf8: piece)
      try await client.withFileDescriptor { number in
        // The descriptor stays the connection's.
        let socket = RawSocket(owning: number)
        defer { _ = socket.release() }
        try socket.sendUrgent(33)
      }
      // A second urgent byte would make an unread first one a part of the stream, for TCP has only one: tcp(7).
      #expect(try await pair.server.read(exactly: 3) == Array(piece.utf8))
    }
    try await client.finishWriting()
    #expect(try await pair.server.readToEnd() == [])
  }
}
