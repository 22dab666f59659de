extension Simulation {
  /// Returns the host with a name. A new name adds a host: the first one gets the addresses 10.0.0.2 and fd00::2, and so on. The
  /// simulation's own program runs on the host `main`, which has 10.0.0.1 and fd00::1.
  ///
  /// Call it within the simulated program; elsewhere it stops the program.
  ///
  /// - Parameter name: The name. Names that differ only in case are one host, as in DNS.
  /// - Returns: The host, with the name that it was given first.
  public func host(_ name: String) -> SimulatedHost {
    let thread = VirtualThread.required
    let number = thread.host(named: name)
    return SimulatedHost(number: number, name: thread.hosts[number].name)
  }

  /// The link between all pairs of hosts for which no other one was set. Within the simulated program only.
  public var defaultLink: NetworkLink {
    get { VirtualThread.required.network.links.defaultLink }
    set {
      let thread = VirtualThread.required
      thread.network.links.defaultLink = newValue
      thread.note("links have \(newValue.text) by default")
    }
  }

  /// Changes the link from one host to another. Packets that are on their way arrive when they would have arrived without the change.
  /// Within the simulated program only.
  ///
  /// - Parameters:
  ///   - link: The link.
  ///   - sender: The host that sends.
  ///   - receiver: The host that receives.
  public func setLink(_ link: NetworkLink, from sender: SimulatedHost, to receiver: SimulatedHost) {
    let thread = VirtualThread.required
    thread.network.links.set(link, from: sender.number, to: receiver.number)
    thread.noteLink(from: sender.number, to: receiver.number)
  }

  /// Changes the links between two hosts, in both directions. Within the simulated program only.
  ///
  /// - Parameters:
  ///   - link: The link.
  ///   - one: A host.
  ///   - other: The other host.
  public func setLink(_ link: NetworkLink, between one: SimulatedHost, and other: SimulatedHost) {
    setLink(link, from: one, to: other)
    setLink(link, from: other, to: one)
  }

  /// Returns the link from one host to another. Within the simulated program only.
  ///
  /// - Parameters:
  ///   - sender: The host that sends.
  ///   - receiver: The host that receives.
  /// - Returns: The link.
  public func link(from sender: SimulatedHost, to receiver: SimulatedHost) -> NetworkLink {
    VirtualThread.required.network.links.link(from: sender.number, to: receiver.number)
  }

  /// Cuts all links between two groups of hosts, in both directions. Packets that are on their way still arrive. Within the simulated
  /// program only.
  ///
  /// - Parameters:
  ///   - group: Hosts.
  ///   - others: Other hosts.
  public func partition(_ group: [SimulatedHost], from others: [SimulatedHost]) { cut(group, others, true) }

  /// Repairs all links between two groups of hosts, in both directions. Within the simulated program only.
  ///
  /// - Parameters:
  ///   - group: Hosts.
  ///   - others: Other hosts.
  public func repair(_ group: [SimulatedHost], and others: [SimulatedHost]) { cut(group, others, false) }

  private func cut(_ group: [SimulatedHost], _ others: [SimulatedHost], _ isCut: Bool) {
    let thread = VirtualThread.required
    let names = [group, others].map { $0.map(\.name).joined(separator: ", ") }
    thread.note("the links between \(names[0]) and \(names[1]) are \(isCut ? "cut" : "repaired")")
    for one in group {
      for other in others where one != other {
        for (sender, receiver) in [(one, other), (other, one)] {
          thread.network.links.cut(isCut, from: sender.number, to: receiver.number)
          thread.happenedLink(from: sender.number, to: receiver.number)
        }
      }
    }
  }
}

extension VirtualThread {
  /// Stops the process if the calling code runs in no simulation.
  static var required: VirtualThread {
    guard let thread = current else { preconditionFailure("hosts and links belong to the simulated program") }
    return thread
  }
}
