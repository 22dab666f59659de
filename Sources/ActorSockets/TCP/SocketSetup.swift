internal import SocketSystem

// How a socket is prepared before it is used. On Linux an accepted socket inherits the options of the listening one, so the
// listener sets them once and accepting needs no system call for them. An adopted socket gets them when it is adopted.

extension TCPConnection.Configuration {
  /// Throws `.invalidArgument` if a value has no meaning. The kernel checks the values of its own options.
  func check(_ operation: String) throws(SocketError) {
    if let limit = liveness.idleTimeout, limit <= .zero {
      throw .invalid(
        operation, "an idle timeout of \(limit) would end every connection at once; give more, or nil for no limit")
    }
    // The kernel would look for the interface that the first 15 bytes name.
    if let device, device.isEmpty || device.utf8.count > 15 || device.utf8.contains(0) {
      throw .invalid(
        operation,
        "\(AddressError.quote(device)) is no name of an interface, which has 1 to 15 bytes and no NUL")
    }
  }

  /// Prepares a new socket before connect(2): sets the options, then calls the program's closure.
  ///
  /// - Parameters:
  ///   - socket: The socket.
  ///   - address: The address that it will be connected to.
  /// - Throws: An error that would occur with every address, so that trying another one is useless.
  func prepare(connecting socket: BorrowedDescriptor, to address: SocketAddress) throws(SocketError) {
    if !address.isUnix { try setOptions(of: socket) }
    try prepare(handingOut: socket)
  }

  /// Sets the options of a TCP socket that will connect, will listen, or was adopted.
  func setOptions(of socket: BorrowedDescriptor) throws(SocketError) {
    if noDelay { try socket.set(.noDelay, to: true) }
    try liveness.apply(to: socket)
  }

  /// Calls the program's closure with a socket whose options are set. Accepted sockets inherit theirs.
  func prepare(handingOut socket: BorrowedDescriptor) throws(SocketError) {
    guard let prepare else { return }
    do {
      try prepare(SocketControl(socket))
    } catch {
      throw .refused(byPrepare: error)
    }
    try socket.refuseBlockingClose("prepare")
  }
}

extension BorrowedDescriptor {
  /// Throws, and turns SO_LINGER off, if the program's code has set it so that close(2) would block the reactor's thread.
  func refuseBlockingClose(_ operation: String) throws(SocketError) {
    guard (try? blocksOnClose()) == true else { return }
    try? stopBlockingOnClose()
    throw .invalid(
      operation,
      "SO_LINGER above 0 was set, and was turned off: closing would block the reactor's thread; close() waits without that"
    )
  }
}

extension SocketError {
  /// The error for what a configuration's `prepare` threw.
  static func refused(byPrepare error: any Error) -> SocketError {
    error as? SocketError
      ?? SocketError(
        .rejected, operation: "prepare", detail: "the configuration's closure refused: \(error)", underlyingError: error
      )
  }
}
