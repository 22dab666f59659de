package import SocketSystem

/// A poller of the system in which the calling thread runs.
package func makePoller() throws -> any Poller { try CurrentSystem.calls.makePoller {} }

extension Poller {
  package func add(_ number: Int32, token: UInt64) throws(SystemError) {
    try add(number, token: token, interest: .ofSocket)
  }

  /// Takes the events that are ready, and returns their number.
  package func take(_ events: inout EventBuffer) -> Int {
    wait(&events, atMost: EventBuffer.capacity, nanoseconds: 0)
  }
}
