import ActorSockets

extension ProxyHeader.Version {
  static let words = ["v1", "v2"]

  init?(word: String) {
    switch word {
    case "v1": self = .v1
    case "v2": self = .v2
    default: return nil
    }
  }
}

extension Words.Argument {
  func proxyProtocolVersion() throws(Failure) -> ProxyHeader.Version {
    if let version = ProxyHeader.Version(word: text) { return version }
    throw .usage("\(option) takes \(ProxyHeader.Version.words.inWords), not \(text.debugDescription)")
  }

  /// The text is `v2`, or `v2:SOURCE,DESTINATION`.
  func proxyHeader() throws(Failure) -> ProxyHeader {
    let colon = text.firstIndex(of: ":")
    guard let version = ProxyHeader.Version(word: String(text[..<(colon ?? text.endIndex)])) else {
      throw .usage(
        "\(option) takes v1 or v2, or v2:SOURCE,DESTINATION with two addresses, not \(text.debugDescription)")
    }
    guard let colon else { return ProxyHeader(version) }
    let addresses = text[text.index(after: colon)...].split(separator: ",", omittingEmptySubsequences: false)
    if addresses.count != 2 {
      throw .usage("\(option) takes two addresses with a comma between them, as in v2:192.0.2.1:5678,192.0.2.2:80")
    }
    do {
      let header = ProxyHeader(
        version, source: try SocketAddress(parsing: String(addresses[0])),
        destination: try SocketAddress(parsing: String(addresses[1])))
      _ = try header.encoded()
      return header
    } catch {
      throw .usage("\(option): \(error)")
    }
  }

  func networks() throws(Failure) -> [IPNetwork] {
    do {
      return try text.split(separator: ",", omittingEmptySubsequences: false).map {
        try IPNetwork(parsing: String($0))
      }
    } catch {
      throw .usage("\(option): \(error)")
    }
  }
}
