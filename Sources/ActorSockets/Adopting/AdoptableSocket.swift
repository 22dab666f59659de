internal import SocketSystem

/// A socket that was checked and can be adopted. The check does not change the socket.
struct AdoptableSocket {
  enum Role {
    case connection, listener, datagrams

    /// Of the two roles that sockets of systemd have.
    var other: Role { self == .listener ? .datagrams : .listener }
  }

  /// The call that takes the socket, as a refusal names it.
  enum Call: String { case adopt, activated }

  /// A connection's remote address; otherwise the socket's own address.
  let address: SocketAddress?
  let isTCP: Bool
  let socket: BorrowedDescriptor

  /// Throws `.notASocket` or `.invalidArgument`. The description says what the descriptor is instead.
  init(_ number: Int32, as role: Role, for call: Call = .adopt) throws(SocketError) {
    socket = BorrowedDescriptor(number)
    do {
      if let misfit = try Self.misfit(socket, as: role, for: call) {
        throw SocketError.invalid("adopt", "descriptor \(number) \(misfit)")
      }
      // Closing a datagram socket never blocks.
      if role != .datagrams, try socket.blocksOnClose() {
        throw SocketError.invalid(
          "adopt", "descriptor \(number) has SO_LINGER above 0, so closing it would block the reactor's thread")
      }
      address = role == .connection ? try socket.remoteAddress() : try socket.localAddress()
      isTCP = try socket.isTCP()
    } catch let error as SocketError {
      throw error
    } catch let error as SystemError {
      throw Self.refusal(number, error)
    } catch {
      throw .invalid("adopt", "\(error)")
    }
    if role != .connection, address == nil {
      throw .invalid("adopt", "descriptor \(number) has an address family that is not supported")
    }
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
  private static func misfit(
    _ socket: BorrowedDescriptor, as role: Role, for call: Call
  ) throws(SystemError) -> String? {
    if try socket.get(.type) == SocketKind.datagram {
      return role == .datagrams ? nil : "is a socket for datagrams; use UDPEndpoint.\(call)"
    }
    let wanted = role == .datagrams ? "datagrams" : "a stream of bytes"
    guard try socket.isStream() else { return "is a socket for packets, not for \(wanted)" }
    if try socket.get(.isListening) != 0 {
      return role == .listener ? nil : "listens; use TCPListener.\(call)"
    }
    if role == .connection { return nil }
    let isConnected = (try? socket.remoteAddress()) != nil
    if isConnected { return "is a connection; use TCPConnection.adopt" }
    return role == .listener
      ? "does not listen: call listen(2)" : "is a socket for a stream of bytes, not for \(wanted)"
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
