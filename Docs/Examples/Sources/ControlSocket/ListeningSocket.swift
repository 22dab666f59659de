import ActorSockets
import Glibc

extension OwnedDescriptor {
  /// Creates a TCP socket that listens: socket(2), bind(2), listen(2).
  ///
  /// A `TCPListener` does not give its descriptor away. So the program keeps this one for the next process, and the listener adopts a
  /// duplicate. Both are the same socket for the kernel, with one queue of connections.
  ///
  /// It listens on the first address of the host; an empty host means all IPv4 addresses.
  static func listening(on host: String, port: UInt16) throws -> OwnedDescriptor {
    var hints = addrinfo()
    hints.ai_flags = AI_PASSIVE
    hints.ai_socktype = Int32(SOCK_STREAM.rawValue)
    var list: UnsafeMutablePointer<addrinfo>?
    let status = getaddrinfo(host.isEmpty ? nil : host, "\(port)", &hints, &list)
    defer { if let list { freeaddrinfo(list) } }
    guard status == 0, let address = list?.pointee else {
      throw ControlError("\(host): \(String(cString: gai_strerror(status)))")
    }
    func check(_ result: Int32, _ call: String) throws -> Int32 {
      if result >= 0 { return result }
      throw ControlError("\(call) \(host):\(port): \(String(cString: strerror(errno)))")
    }
    let type = Int32(SOCK_STREAM.rawValue | SOCK_CLOEXEC.rawValue)
    let socket = OwnedDescriptor(owning: try check(Glibc.socket(address.ai_family, type, 0), "socket"))
    var on: Int32 = 1
    _ = try check(setsockopt(socket.number, SOL_SOCKET, SO_REUSEADDR, &on, 4), "setsockopt")
    _ = try check(bind(socket.number, address.ai_addr, address.ai_addrlen), "bind")
    _ = try check(listen(socket.number, 4096), "listen")
    return socket
  }
}

extension TCPListener {
  /// Creates a listener that accepts from a duplicate of a socket. The socket stays the caller's.
  static func sharing(_ socket: borrowing OwnedDescriptor) throws -> TCPListener {
    let duplicate = try OwnedDescriptor(duplicating: socket.number)
    let listener = try adopt(fileDescriptor: duplicate.number)
    // It is the listener's now. If `adopt` throws, it is closed.
    _ = duplicate.release()
    return listener
  }
}
