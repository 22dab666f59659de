// The lines of the trace that say what a test has done to hosts and links.

internal import SocketSystem

extension VirtualThread {
  func noteLink(from: Int, to: Int) {
    note("the link from \(hosts[from].name) to \(hosts[to].name) has \(network.links.link(from: from, to: to).text)")
    happenedLink(from: from, to: to)
  }

  /// For example `server crashes`.
  func noteCondition(_ condition: HostCondition, _ verb: String, of host: Int) {
    let text = "\(hosts[host].name) \(verb)"
    note(text, as: .state(of: host, condition, change: text))
  }

  func noteMiddlebox(_ middlebox: Middlebox?, between one: Int, and other: Int) {
    note("between \(hosts[one].name) and \(hosts[other].name), \(middlebox?.text ?? "no middlebox stands")")
  }
}

extension NetworkLink {
  /// For example `a latency of 0.001 seconds, a loss of 0.1`.
  var text: String { parts.joined(separator: ", ") }

  /// In what it differs from another link; empty if in nothing.
  func text(besides other: NetworkLink) -> String {
    let known = other.parts
    return parts.filter { !known.contains($0) }.joined(separator: ", ")
  }

  private var parts: [String] {
    var parts = ["a latency of \(latency.text)"]
    if let bandwidth { parts.append("\(bandwidth) bit/s") }
    for (name, share) in [("loss", loss), ("duplication", duplication), ("reordering", reordering)] where share > 0 {
      parts.append("a \(name) of \(share)")
    }
    if mtu != 1_500 { parts.append("an MTU of \(mtu)") }
    if isCut { parts.append("a cut") }
    if let rejection { parts.append("a router that answers \(rejection)") }
    return parts
  }
}

extension NetworkLink.Latency {
  fileprivate var text: String {
    switch self {
    case .fixed(let time): "\(time)"
    case .uniform(let least, let most): "\(least) to \(most)"
    case .normal(let mean, let deviation): "\(mean) ± \(deviation)"
    case .heavyTail(let minimum, let shape): "at least \(minimum), with the shape \(shape)"
    }
  }
}

extension Middlebox {
  fileprivate var text: String {
    switch kind {
    case .forgetsIdle(let time, let unknown):
      "a middlebox forgets connections that are idle for \(Duration.nanoseconds(time)), and then answers with a \(unknown)"
    case .dropsData: "a middlebox drops data"
    }
  }
}

extension CallFault {
  /// For example `send fails with the error 105 (probability 0.1)`.
  var text: String {
    switch kind {
    case .fail(let call, let error): "\(call) fails with the error \(error.rawValue) (probability \(probability))"
    case .shortReads: "reads are short (probability \(probability))"
    case .shortWrites: "writes are short (probability \(probability))"
    case .spuriousReadiness: "events tell of nothing (probability \(probability))"
    case .emfile(let count): "no descriptor is left after \(count)"
    }
  }
}
