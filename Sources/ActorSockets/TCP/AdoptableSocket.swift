internal import SocketSystem

/// A stream socket from elsewhere, looked at and found fit to be taken over. Looking changes nothing about it: whoever is
/// refused finds it as it was.
struct AdoptableSocket {
  /// What it is to be.
  enum Role { case connection, listener }

  /// Where it listens; of a connection, where the peer is.
  let address: SocketAddress?
  let isTCP: Bool
  let socket: BorrowedDescriptor

  /// Looks at a descriptor.
  ///
  /// - Throws: `.notASocket`, or `.invalidArgument`; the sentence says what it is instead.
  init(_ number: Int32, as role: Role) throws(SocketError) {
    socket = BorrowedDescriptor(number)
    do {
      if let misfit = try Self.misfit(socket, as: role) {
        throw SocketError.invalid("adopt", "descriptor \(number) \(misfit)")
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

  /// Takes it over: it does not block from here on, and child processes do not inherit it.
  func take() throws(SocketError) -> OwnedDescriptor {
    do throws(SystemError) {
      try socket.makeNonblocking()
    } catch {
      throw Self.refusal(socket.number, error)
    }
    return OwnedDescriptor(owning: socket.number)
  }

  /// What speaks against it, to stand behind its number.
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

  /// What a call's failure says of a descriptor.
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
