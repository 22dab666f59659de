internal import SocketSystem

// How a socket is prepared before it is used. On Linux an accepted socket inherits the options of the listening one, so the
// listener sets them once and accepting needs no system call for them. An adopted socket gets them when it is adopted.

extension TCPConnection.Configuration {
  /// The kernel checks the values of its own options.
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

  /// Call it before connect(2). It throws only errors that would occur with every address, so trying another one is useless.
  func prepare(connecting socket: BorrowedDescriptor, to address: SocketAddress) throws(SocketError) {
    if !address.isUnix { try setOptions(of: socket) }
    try prepare(handingOut: socket)
  }

  func setOptions(of socket: BorrowedDescriptor) throws(SocketError) {
    if noDelay { try socket.set(.noDelay, to: true) }
    try liveness.apply(to: socket)
  }

  /// The options are set before, so that the program's closure can change them.
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
  static func refused(byPrepare error: any Error) -> SocketError {
    error as? SocketError
      ?? SocketError(
        .rejected, operation: "prepare", detail: "the configuration's closure refused: \(error)", underlyingError: error
      )
  }
}
