internal import SocketSystem

extension SimulatedNetwork {
  /// The sockets that are open, the connections that have not ended, and the packets on their way; a line for each thing.
  ///
  /// - Parameter names: The names of the hosts.
  /// - Returns: The lines.
  func leftovers(_ names: [String]) -> [String] {
    var lines: [String] = []
    for (host, name) in names.enumerated() { lines += kernel(of: host)?.leftovers.map { "\(name): \($0)" } ?? [] }
    if packetsOnTheirWay == 1 { lines.append("a packet is on its way") }
    if packetsOnTheirWay > 1 { lines.append("\(packetsOnTheirWay) packets are on their way") }
    return lines
  }
}

extension SimulatedKernel {
  fileprivate var leftovers: [String] {
    var lines: [String] = []
    for case .socket(let socket)? in files { lines.append(socket.leftover) }
    // No descriptor has these any more, or not yet.
    let others = flows.values.filter { $0.number == nil }
    return lines + others.map(\.leftover).sorted()
  }
}

extension SimulatedSocket {
  /// What this socket is, for a person who forgot to close it.
  fileprivate var leftover: String {
    let place = local.map { "\($0)" } ?? "no address"
    if isListening { return "the listener on \(place) is not closed" }
    if self is UDPSocket { return "the UDP socket on \(place) is not closed\(unread)" }
    if self is UnixSocket { return "the unix socket with \(place) is not closed\(unread)" }
    guard let connection = self as? TCPSocket, let remote = remote else {
      return "a socket without a connection is not closed"
    }
    let name = "the connection from \(place) to \(remote)"
    if number != nil { return "\(name) is not closed\(unread)" }
    if connection.machine.isOrphan {
      return "\(name) is closed, but its peer has not acknowledged that or not closed its end"
    }
    return "\(name) was not accepted\(unread)"
  }

  private var unread: String {
    receivableBytes == 0
      ? "" : receivableBytes == 1 ? "; a byte was not read" : "; \(receivableBytes) bytes were not read"
  }
}
