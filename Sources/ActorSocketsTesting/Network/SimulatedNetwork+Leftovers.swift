internal import SocketSystem

extension SimulatedNetwork {
  /// A line for each open socket, each connection that has not ended, and the packets on their way. `names` are those of the hosts.
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
    // Several descriptors and messages can refer to one socket.
    var seen: Set<ObjectIdentifier> = []
    for case .socket(let socket)? in files where seen.insert(ObjectIdentifier(socket)).inserted {
      lines.append(socket.leftover("is not closed"))
    }
    for socket in passing.inFlight where seen.insert(ObjectIdentifier(socket)).inserted {
      lines.append(socket.leftover("was passed to a unix socket and not received"))
    }
    // No descriptor has these any more, or not yet.
    let others = flows.values.filter { !$0.isOpen }
    return lines + others.map { $0.leftover("") }.sorted()
  }
}

extension SimulatedSocket {
  /// `state` is the clause about a socket that is still open, for example "is not closed".
  fileprivate func leftover(_ state: String) -> String {
    let address = local.map { "\($0)" } ?? "no address"
    if isListening { return "the listener on \(address) \(state)" }
    if self is UDPSocket { return "the UDP socket on \(address) \(state)\(unread)" }
    if self is UnixSocket { return "the unix socket with \(address) \(state)\(unread)" }
    guard let connection = self as? TCPSocket, let remote = remote else {
      return "a socket without a connection \(state)"
    }
    let name = "the connection from \(address) to \(remote)"
    if isOpen { return "\(name) \(state)\(unread)" }
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
