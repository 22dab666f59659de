import ActorSocketsTesting
import EpollReactor
import Glibc
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// A system that has no descriptors or no threads for another reactor. Each test is a process of its own, whose limits it changes.
@Suite struct ReactorShortageTests {
  @Test(arguments: Shortage.allCases)
  func `A reactor that cannot start throws, and starts later`(shortage: Shortage) async {
    await #expect(processExitsWith: .success) { [shortage] in
      await PoolDescriptors.areOpen()
      let before = openDescriptors()
      let error = shortage.during { #expect(throws: SocketError.self) { try Reactor.start() } }
      #expect(error?.code == shortage.code && error?.operation == "start a reactor", "\(error as Any)")
      if shortage == .threads { #expect(error?.description.contains("no more threads") == true) }
      // Swift's pool opens files for a moment.
      try await eventually("its descriptors are closed") { openDescriptors() <= before }
      let reactor = try Reactor.start()
      let listener = try TCPListener.onLoopback(on: reactor)
      let client = try RawSocket.connected(to: listener.address)
      await (try await listener.accept()).close()
      #expect(try await client.receiveToEnd() == [])
    }
  }

  @Test func `A server whose reactors cannot start serves no connection, and can be served later`() async {
    await #expect(processExitsWith: .success) {
      try await within("it is served") {
        let listener = try TCPListener.onLoopback(on: Reactor())
        let error = try await Shortage.duringThreadShortage {
          await #expect(throws: SocketError.self) { try await listener.serve(.init(reactors: 4)) { _ in } }
        }
        #expect(error?.code == .system && error?.operation == "start a reactor", "\(error as Any)")
        let serving = Task { try await listener.serve(.init(reactors: 4)) { _ in } }
        #expect(try await RawSocket.connected(to: listener.address).receiveToEnd() == [])
        #expect(try await serving.stop().accepted == 1)
      }
    }
  }
  @Test func `A server without sockets makes no reactors for its connections`() async {
    await #expect(processExitsWith: .success) {
      try await within("it is served") {
        let listener = InMemoryListener()
        await PoolDescriptors.areOpen()
        let before = openDescriptors()
        let serving = Task { try await listener.serve(.init(reactors: 4)) { _ in } }
        #expect(try await listener.connect().read() == nil)
        // Swift's pool opens files for a moment.
        try await eventually("no descriptor was opened") { openDescriptors() <= before }
        #expect(try await serving.stop().accepted == 1)
      }
    }
  }
}
