import ActorSocketsTesting
import EpollReactor
import Foundation
import TestSupport
import Testing

@testable import ActorSockets
@testable import SocketSystem

/// A program whose standard streams are closed. Each test is a process of its own, because all tests share these.
@Suite struct StandardStreamTests {
  enum Maker: String, CaseIterable, Codable {
    case reactor, listener, unixListener, connection, endpoint, file, capture, signals, duplicate
    case receivedFromStream, receivedWithDatagram

    /// Makes them without standard streams, and keeps them while `body` runs.
    func make(_ body: () -> Void) async throws {
      // What the test itself needs, with higher numbers.
      let spare = try RawSocket.listening()
      let (near, far) = try RawSocket.unixPair()
      let file = try TemporaryFile()
      let folder = try SocketFolder()
      defer { withExtendedLifetime(folder) {} }
      await PoolDescriptors.areOpen()
      for number in 0...2 as ClosedRange<Int32> { close(number) }
      switch self {
      case .reactor: withExtendedLifetime(Reactor(), body)
      case .listener:
        let listener = try TCPListener.onLoopback()
        body()
        await listener.close()
      case .unixListener:
        let listener = try TCPListener.bind(to: .unix(path: folder()))
        body()
        await listener.close()
      case .connection:
        let listener = try TCPListener.onLoopback()
        let connection = try await TCPConnection.connect(to: listener.endpoint)
        let accepted = try await listener.accept()
        body()
        await connection.abort()
        await accepted.abort()
      case .endpoint:
        let endpoint = try UDPEndpoint.bind(to: .address(.ipv4(.loopback, port: 0)))
        body()
        await endpoint.close()
      case .file: withExtendedLifetime(try FileSource(path: "/proc/self/exe"), body)
      case .capture:
        let capture = try PacketCapture(path: file.path, replacing: true)
        body()
        try await capture.finish()
      case .signals: withExtendedLifetime(try ProcessSignals([.terminate]), body)
      case .duplicate:
        let duplicate = try OwnedDescriptor(duplicating: spare.number)
        body()
        _ = consume duplicate
      case .receivedFromStream: try await receive(near, far, spare, body)
      case .receivedWithDatagram: try await receiveDatagram(spare, at: folder(), body)
      }
    }

    private func receive(_ near: RawSocket, _ far: RawSocket, _ passed: RawSocket, _ body: () -> Void) async throws {
      let configuration = TCPConnection.Configuration { $0.pendingDescriptorLimit = 1 }
      let connection = try TCPConnection.adopt(fileDescriptor: near.release(), configuration: configuration)
      _ = BorrowedDescriptor(far.number).send([1].span, passing: try OwnedDescriptor(duplicating: passed.number))
      _ = try await connection.read(exactly: 1)
      body()
      await connection.abort()
    }

    private func receiveDatagram(_ passed: RawSocket, at path: String, _ body: () -> Void) async throws {
      let endpoint = try UDPEndpoint.bind(to: .unix(path: path), configuration: .init { $0.descriptorsPerDatagram = 1 })
      var datagram = Datagram([1], to: endpoint.localAddresses[0])
      datagram.pass(try OwnedDescriptor(duplicating: passed.number))
      try await endpoint.send(datagram)
      let received = try await endpoint.receive()
      body()
      withExtendedLifetime(received) {}
      await endpoint.close()
    }
  }

  @Test(arguments: Maker.allCases)
  func `No descriptor gets the number of a standard stream that is closed`(maker: Maker) async {
    await #expect(processExitsWith: .success) { [maker] in
      try await within("it is made") {
        try await maker.make {
          // Swift's pool opens files for a moment.
          #expect(blockThread { (0...2 as ClosedRange<Int32>).allSatisfy { fcntl($0, F_GETFD) < 0 } })
        }
      }
    }
  }

  @Test(arguments: [0, 1, 2] as [Int32])
  func `A socket that is a standard stream is adopted, and keeps its number`(number: Int32) async {
    await #expect(processExitsWith: .success) { [number] in
      let (near, far) = try RawSocket.pair()
      dup2(near.release(), number)
      try await within("the bytes arrive") {
        let connection = try TCPConnection.adopt(fileDescriptor: number)
        #expect(try await connection.withFileDescriptor { $0 } == number)
        try far.send("hello")
        #expect(try await connection.read(exactly: 5) == Array("hello".utf8))
        try await connection.write(utf8: "bye")
        await connection.close()
        #expect(try await far.receiveToEnd() == Array("bye".utf8))
        #expect(fcntl(number, F_GETFD) < 0)
      }
    }
  }

  private struct Secret: Error {}

  /// How a client got the number of standard error.
  enum Client: String, CaseIterable, Codable { case accepted, inherited }

  @Test(arguments: Client.allCases)
  func `The library's line about a failed handler reaches no client`(client: Client) async {
    await #expect(processExitsWith: .success) { [client] in
      try await within("the handlers fail") {
        let listener = try TCPListener.onLoopback()
        let (near, inherited) = try RawSocket.pair()
        let connected = try RawSocket.connected(to: listener.address)
        let far = client == .inherited ? inherited : connected
        // Swift Testing writes to standard error when the body ends.
        let standardError = fcntl(STDERR_FILENO, F_DUPFD_CLOEXEC, 3)
        defer {
          dup2(standardError, STDERR_FILENO)
          close(standardError)
        }
        if client == .inherited { dup2(near.number, STDERR_FILENO) } else { close(STDERR_FILENO) }
        let isAccepted = Gate()
        let serving = Task {
          try await listener.serve { connection in
            if try await connection.read(exactly: 1) == [1] { throw Secret() }
            isAccepted.open()
            _ = try await connection.read()
          }
        }
        try connected.send([0])
        await isAccepted.wait()
        for _ in 0..<3 {
          let failing = try RawSocket.connected(to: listener.address)
          try failing.send([1])
          _ = try? await failing.receiveToEnd()
        }
        try await eventually("the lines are written") { threads(named: "stderr") == 0 }
        connected.finishWriting()
        near.finishWriting()
        #expect(try await far.receiveToEnd() == [])
        _ = try await serving.stop()
      }
    }
  }
}
