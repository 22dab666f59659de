import ActorSockets
import ExampleSupport
import Foundation

@testable import DNSForwarder

extension Tool {
  static let dig = Tool("dig", package: "bind9-dnsutils")
  static let dnsmasq = Tool("dnsmasq", package: "dnsmasq-base")
  static let dnsForwarder = Tool(example: "DNSForwarder")
}

/// A dnsmasq that knows some names below `.example`, and logs the questions that it gets.
struct NameServer: Sendable {
  let program: Program
  let endpoint: Endpoint

  /// A text record that fits into no datagram.
  static let longText = (0..<20).map { "part \($0) " + String(repeating: "x", count: 200) }

  init() async throws {
    // An address of its own: many ports of 127.0.0.1 may be in use for a while after other tests.
    let address = "127.53.0.2"
    var complaint = ""
    for _ in 0..<10 {
      // dnsmasq cannot choose a port. Another program may take this one before it does.
      let probe = try UDPEndpoint.bind(to: .host(address, port: 0))
      let port = probe.localAddresses[0].port ?? 0
      await probe.close()
      let program = try Program(
        .dnsmasq,
        [
          "--no-daemon", "--conf-file=/dev/null", "--pid-file=", "--user=\(NSUserName())", "--port=\(port)",
          "--listen-address=\(address)", "--bind-interfaces", "--no-resolv", "--no-hosts", "--log-queries",
          "--local=/example/", "--host-record=a.example,192.0.2.7,300",
          "--host-record=short.example,192.0.2.8,2001:db8::8,7",
          "--host-record=b.example,192.0.2.9,300", "--cname=alias.example,b.example,300",
          "--txt-record=long.example,\(Self.longText.joined(separator: ","))", "--edns-packet-max=1232",
          "--local-ttl=300", "--auth-ttl=300",
        ])
      if await program.errors.wait(until: { $0.contains("started, version") }) {
        self.program = program
        endpoint = .host(address, port: port)
        return
      }
      complaint = await program.errors.text
    }
    throw Overdue(description: "dnsmasq does not start: \(complaint)")
  }

  /// The number of questions for a name.
  func questions(for name: String) async -> Int {
    await program.errors.text.split(separator: "\n").count { $0.contains(" query[") && $0.contains(" \(name) ") }
  }
}

/// A forwarder in this process, on UDP and TCP.
struct RunningForwarder: Sendable {
  let address: SocketAddress
  private let endpoint: UDPEndpoint
  private let listener: TCPListener
  private let serving: Task<Void, any Error>

  init(
    upstream: [Endpoint], limits: DNSForwarder.Limits = .init(), patience wait: Duration = .seconds(5)
  ) async throws {
    var upstream = DNSUpstream(servers: upstream)
    upstream.patience = wait
    let forwarder = DNSForwarder(upstream: upstream, limits: limits)
    endpoint = try UDPEndpoint.bind(to: .host("127.53.0.3", port: 0), configuration: DNSForwarder.endpointConfiguration)
    address = endpoint.localAddresses[0]
    listener = try TCPListener.bind(to: .address(address))
    serving = Task { [endpoint, listener] in
      try await withThrowingTaskGroup { group in
        group.addTask { try await forwarder.serve(endpoint) }
        group.addTask { try await listener.serve { try await forwarder.serve($0) } }
        try await group.waitForAll()
      }
    }
  }

  func dig(_ arguments: String...) async throws -> String {
    try await Program.run(.dig, ["@127.53.0.3", "-p", "\(address.port ?? 0)", "+tries=1", "+time=30"] + arguments)
  }

  func stop() async throws {
    await endpoint.close()
    await listener.drain(within: .zero)
    try await serving.value
  }
}
