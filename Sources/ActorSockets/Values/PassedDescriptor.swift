internal import SocketSystem

/// The descriptor is closed when the last reference is dropped.
package final class PassedDescriptor: Sendable {
  let descriptor: OwnedDescriptor
  init(_ descriptor: consuming OwnedDescriptor) { self.descriptor = descriptor }
}

extension SocketError {
  /// A program in a simulation wants to pass a file of Linux, such as a pipe.
  static func passesOnlySimulated(_ operation: String) -> SocketError {
    .invalid(operation, "a simulated socket can only pass other sockets of its simulation")
  }
}
