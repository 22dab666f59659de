internal import SocketSystem

// What a socket gets before anybody uses it. On Linux an accepted socket begins with the options of the listening one, so the
// listener sets them once and accepting costs no system call for them. A socket from elsewhere gets them when it is adopted.

extension TCPConnection.Configuration {
  /// All that a fresh socket gets before connect(2): the options, and then the program's closure.
  ///
  /// - Parameters:
  ///   - socket: The socket.
  ///   - address: Where it will be connected to.
  /// - Throws: What concerns every address, so that no other one need be tried.
  func prepare(connecting socket: BorrowedDescriptor, to address: SocketAddress) throws(SocketError) {
    if !address.isUnix { try setOptions(of: socket) }
    try prepare(handingOut: socket)
  }

  /// Sets the options of a TCP socket: one that will connect, one that will listen, one that was adopted.
  func setOptions(of socket: BorrowedDescriptor) throws(SocketError) {
    if noDelay { try socket.set(.noDelay, to: true) }
    try liveness.apply(to: socket)
  }

  /// Lets the program's closure look at a socket that has its options, as an accepted one has.
  func prepare(handingOut socket: BorrowedDescriptor) throws(SocketError) {
    guard let prepare else { return }
    do {
      try prepare(SocketControl(socket))
    } catch {
      throw .refused(byPrepare: error)
    }
  }
}

extension SocketError {
  /// What a configuration's `prepare` threw.
  static func refused(byPrepare error: any Error) -> SocketError {
    error as? SocketError
      ?? SocketError(
        .rejected, operation: "prepare", detail: "the configuration's closure refused: \(error)", underlyingError: error
      )
  }
}
