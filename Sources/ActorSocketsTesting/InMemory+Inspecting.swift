package import ActorSockets

extension InMemoryConnection: Inspectable {
  package nonisolated var inspectedType: String { "connection" }
  package var inspected: [(name: String, value: JSON)]? { core.inspected("memory", self) }
}

extension InMemoryListener: Inspectable {
  package var inspected: [(name: String, value: JSON)]? {
    inspected("memory", [("waiting", .number(waitingConnections().reduce(0, +)))])
  }
}
