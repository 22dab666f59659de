import Foundation
import Testing

/// A host of a network that exists only for a test: a network namespace, network_namespaces(7). A program in it keeps it, and ends with the
/// last reference.
package final class Host: Sendable {
  private let keeper: Program

  /// Makes a host without any interface but `lo`, which is up.
  package init() async throws {
    keeper = try Program(Tool("unshare", package: "util-linux"), ["--net", "sh", "-c", "echo ready; exec sleep 600"])
    try await keeper.waitForOutput("ready\n")
    try await ip("link set lo up")
  }

  /// Starts a program on this host.
  package func start(_ tool: Tool, _ arguments: [String]) throws -> Program {
    try Program(
      Tool("nsenter", package: "util-linux"),
      ["--net=/proc/\(keeper.processIdentifier)/ns/net", tool.url.path] + arguments)
  }

  /// Runs ip(8) on this host, once for each of the commands.
  package func ip(_ commands: String...) async throws {
    for command in commands {
      let words = command.split(separator: " ").map(String.init)
      let program = try start(Tool("ip", package: "iproute2"), words)
      if try await program.exitStatus() != 0 {
        throw Overdue(description: "ip \(command) failed: \(await program.errors.whole)")
      }
    }
  }

  /// Adds a cable, veth(4), to another host. Both ends are up. They have the addresses 10.0.`network`.`number` and fe80::`number`, unless
  /// the number is `nil`.
  package func connect(
    _ interface: String, _ number: Int?, to other: Host, _ otherInterface: String, _ otherNumber: Int?, network: Int = 0
  ) async throws {
    try await ip(
      "link add name \(interface) type veth peer name \(otherInterface) netns \(other.keeper.processIdentifier)")
    for (host, name, number) in [(self, interface, number), (other, otherInterface, otherNumber)] {
      // The kernel adds no address by itself. Those that are added need no time for duplicate address detection.
      try await host.ip("link set \(name) addrgenmode none", "link set \(name) up")
      guard let number else { continue }
      try await host.ip(
        "address add 10.0.\(network).\(number)/24 dev \(name)", "address add fe80::\(number)/64 dev \(name) nodad")
    }
  }

  /// Makes hosts that are connected by a switch. Host 1 has the addresses 10.0.0.1 and fe80::1 on its interface eth0, and so on.
  package static func network(of count: Int) async throws -> (hosts: [Host], switch: Host) {
    let center = try await Host()
    try await center.ip("link add name switch type bridge mcast_snooping 0", "link set switch up")
    var hosts: [Host] = []
    for number in 1...count {
      let host = try await Host()
      try await host.connect("eth0", number, to: center, "port\(number)", nil)
      try await center.ip("link set port\(number) master switch")
      hosts.append(host)
    }
    return (hosts, center)
  }

  /// Why no hosts can be made here; `nil` if they can.
  fileprivate static let obstacle: String? = {
    for tool in [Tool("unshare", package: "util-linux"), Tool("nsenter", package: "util-linux")] {
      if let obstacle = tool.obstacle { return obstacle }
    }
    let ip = Tool("ip", package: "iproute2")
    if let obstacle = ip.obstacle { return obstacle }
    let trial = "unshare --net \(ip.url.path) link add name near type bridge >/dev/null 2>&1"
    return system(trial) == 0 ? nil : "this process may not make network namespaces"
  }()
}

extension Trait where Self == ConditionTrait {
  /// Runs the test if it can make hosts. Otherwise it fails with `CI=true`, and is otherwise skipped.
  package static var needsHosts: Self { .runs(unless: Host.obstacle) }
}
