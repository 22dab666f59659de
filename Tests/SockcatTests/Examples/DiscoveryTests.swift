import ActorSockets
import ActorSocketsTesting
import TestSupport
import Testing

/// The example of multicast in the article about datagrams.
@Suite struct DiscoveryTests {
  @Test(arguments: ["239.1.2.3", "ff15::1"])
  func `The members of a group answer, and other hosts do not`(group: String) async throws {
    let simulation = Simulation()
    try await simulation.run {
      let group = try IPAddress(parsing: group)
      for name in ["a", "b"] {
        simulation.host(name).start { try await answerQuestions(to: group, port: 5_000, on: "eth0", as: name) }
      }
      let other = try IPAddress(parsing: group.isIPv4 ? "239.9.9.9" : "ff15::9")
      simulation.host("c").start { try await answerQuestions(to: other, port: 5_000, on: "eth0", as: "c") }
      let names = try await simulation.host("client").run {
        try await askGroup(group, port: 5_000, on: "eth0").map { String(decoding: $0.bytes, as: UTF8.self) }
      }
      #expect(names.sorted() == ["a", "b"])
      #expect(simulation.clock.now.elapsed >= .seconds(1))
    }
  }

  @Test func `Two programs on one host are members of one group`() async throws {
    let simulation = Simulation()
    try await simulation.run {
      let group = try IPAddress(parsing: "239.1.2.3")
      simulation.host("a").start {
        try await withThrowingTaskGroup { tasks in
          for name in ["a1", "a2"] {
            tasks.addTask { try await answerQuestions(to: group, port: 5_000, on: "eth0", as: name) }
          }
          try await tasks.waitForAll()
        }
      }
      let names = try await simulation.host("client").run {
        try await askGroup(group, port: 5_000, on: "eth0").map { String(decoding: $0.bytes, as: UTF8.self) }
      }
      #expect(names.sorted() == ["a1", "a2"])
    }
  }
}
