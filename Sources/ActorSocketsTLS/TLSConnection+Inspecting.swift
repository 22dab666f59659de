package import ActorSockets

extension TLSConnection: Inspectable {
  package nonisolated var inspectedType: String { "connection" }

  package var inspected: [(name: String, value: JSON)]? {
    guard var members = core.inspected("tls", self) else { return nil }
    if transport.phase == .up, let (version, name) = transport.engine?.brief {
      members.append(("tls", .object([("version", .string("\(version)")), ("name", JSON(name))])))
    }
    return members
  }
}
