import ActorSockets
import Glibc
import SocketSystem
import TestSupport
import Testing

@Suite struct AdoptTests {
  @Test func `A connected socket of any family can be adopted`() async throws {
    try await within("everything arrives") {
      let pairs = [
        try RawSocket.pair(on: .ipv4(.loopback, port: 0)), try RawSocket.pair(on: .ipv6(.loopback, port: 0)),
        try RawSocket.unixPair(),
      ]
      for (near, peer) in pairs {
        let number = near.release()
        let connection = try TCPConnection.adopt(fileDescriptor: number)
        try peer.send("hello\n")
        #expect(try await connection.read(until: .lf) == Array("hello\n"))
        try await connection.write(utf8: "bye")
        try await connection.finishWriting()
        #expect(try await peer.receiveToEnd() == Array("bye"))
        #expect(try await connection.withFileDescriptor { $0 } == number)
        peer.close()
        await connection.close()
        await expectError(.closed) { try await connection.withFileDescriptor { _ in } }
      }
    }
  }

  enum Unfit: CaseIterable { case none, closed, pipe, datagram, listening, unconnected }

  @Test(arguments: Unfit.allCases)
  func `A descriptor that does not fit stays the caller's`(unfit: Unfit) async throws {
    var number: Int32 = -1
    var others: [Int32] = []
    switch unfit {
    case .none: break
    case .closed: number = 1_000_000
    case .pipe:
      var ends: [Int32] = [0, 0]
      // SAFETY: pipe writes two ints, which the array has.
      #expect(unsafe pipe(&ends) == 0)
      number = ends[0]
      others = [ends[1]]
    case .datagram: number = socket(AF_INET, Int32(SOCK_DGRAM.rawValue), 0)
    case .listening: number = try RawSocket.listening().release()
    case .unconnected: number = socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    }
    let error = await expectError(.invalidArgument) { _ = try TCPConnection.adopt(fileDescriptor: number) }
    #expect(error.description.contains("\(number)"))
    if number >= 0, unfit != .closed {
      // It is open, and blocks as before.
      #expect(fcntl(number, F_GETFD) >= 0)
      #expect(fcntl(number, F_GETFL) & O_NONBLOCK == 0)
      for number in others + [number] { close(number) }
    }
  }
}
