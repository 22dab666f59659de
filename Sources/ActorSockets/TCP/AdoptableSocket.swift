internal import SocketSystem

/// A stream socket that was checked and can be adopted. The check does not change the socket.
struct AdoptableSocket {
  enum Role { case connection, listener }

  /// A listener's own address, or a connection's remote address.
  let address: SocketAddress?
  let isTCP: Bool
  let socket: BorrowedDescriptor

  /// Throws `.notASocket` or `.invalidArgument`. The description says what the descriptor is instead.
  init(_ number: Int32, as role: Role) throws(SocketError) {
    socket = BorrowedDescriptor(number)
    do {
      if let misfit = try Self.misfit(socket, as: role) {
        throw SocketError.invalid("adopt", "descriptor \(number) \(misfit)")
      }
      if try socket.blocksOnClose() {
        throw SocketError.invalid(
          "adopt", "descriptor \(number) has SO_LINGER above 0, so closing it would block the reactor's thread")
      }
      address = role == .listener ? try socket.localAddress() : try socket.remoteAddress()
      isTCP = try socket.isTCP()
    } catch let error as SocketError {
      throw error
    } catch let error as SystemError {
      throw Self.refusal(number, error)
    } catch {
      throw .invalid("adopt", "\(error)")
    }
    if role == .listener, address == nil { throw .invalid("adopt", "descriptor \(number) is of no family known here") }
  }

  func take() throws(SocketError) -> OwnedDescriptor {
    try makeNonblocking()
    return takeOwnership()
  }

  /// Also sets close-on-exec.
  func makeNonblocking() throws(SocketError) {
    do throws(SystemError) {
      try socket.makeNonblocking()
    } catch {
      throw Self.refusal(socket.number, error)
    }
  }

  /// The socket must be nonblocking.
  func takeOwnership() -> OwnedDescriptor { OwnedDescriptor(owning: socket.number) }

  /// Phrased to follow "descriptor 5"; `nil` if the socket fits the role.
  private static func misfit(_ socket: BorrowedDescriptor, as role: Role) throws(SystemError) -> String? {
    guard try socket.isStream() else { return "is a socket for datagrams or packets, not for a stream of bytes" }
    let listens = try socket.get(.isListening) != 0
    switch role {
    case .connection: return listens ? "listens, so that TCPListener.adopt takes it" : nil
    case .listener:
      if listens { return nil }
      let isConnected = (try? socket.remoteAddress()) != nil
      return isConnected ? "is a connection, so that TCPConnection.adopt takes it" : "does not listen: call listen(2)"
    }
  }

  private static func refusal(_ number: Int32, _ error: SystemError) -> SocketError {
    let (code, what): (SocketError.Code, String) =
      switch error.errno {
      case Errno.badDescriptor: (.invalidArgument, "is not open")
      case Errno.notSocket:
        (.notASocket, "is \((try? FileKind(of: number))?.description ?? "something else"), not a socket")
      case Errno.notConnected: (.invalidArgument, "is not connected")
      default: (.invalidArgument, "cannot be taken over")
      }
    return SocketError(code, operation: "adopt", detail: "descriptor \(number) \(what)", errno: error.errno)
  }
}
