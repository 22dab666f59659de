import ExampleSupport
import Foundation
import Testing

extension Tool {
  fileprivate static let discovery = Tool(example: "Discovery")
}

/// The program on hosts of a network, with another program in Python.
@Suite(.serialized, .needsHosts, .needs(.discovery), .needs(.python))
struct DiscoveryNetworkTests {
  @Test func `Programs on three hosts find each other, and lose each other`() async throws {
    try await within("they have found and lost each other") {
      let network = try await Host.network(of: 3)
      let printer = try network.hosts[0].start(.discovery, ["announce", "printer", "631", "color=yes"])
      let shop = try network.hosts[0].start(.discovery, ["announce", "shop", "80"])
      let scanner = try network.hosts[1].start(.python, [Tool.script("peer.py"), "announce", "scanner", "99"])
      let browser = try network.hosts[2].start(.discovery, ["browse"])

      // In both families, and on the same host.
      for program in [browser, shop] {
        let found = /printer at 10\.0\.0\.1:631, \[fe80::1%\w+\]:631 color=yes\n/
        #expect(await program.output.wait { $0.contains(found) })
        #expect(await program.output.wait { $0.contains(/scanner at 10\.0\.0\.2:99, \[fe80::2%\w+\]:99 color=no\n/) })
      }
      for address in ["10.0.0.1", "fe80::1"] {
        try await scanner.waitForOutput("announcement printer 631 color=yes from \(address)\n")
        try await scanner.waitForOutput("announcement shop 80 from \(address)\n")
      }
      try await scanner.waitForOutput("query from 10.0.0.3\n")

      await printer.kill(SIGTERM)
      #expect(try await printer.exitStatus() == 0)
      for program in [browser, shop] { try await program.waitForOutput("- printer at ") }
      try await scanner.waitForOutput("goodbye from 10.0.0.1\n")
      #expect(await !printer.output.whole.contains("printer"))

      // This one says nothing more.
      await scanner.kill(SIGKILL)
      for program in [browser, shop] { try await program.waitForOutput("- scanner at ") }
      #expect(await !browser.output.text.contains("- shop"))
      await shop.stop()
      try await browser.waitForOutput("- shop at ")
      await browser.stop()
    }
  }

  @Test func `A program uses interfaces that come, and survives those that go`() async throws {
    try await within("the programs have found and lost each other") {
      let network = try await Host.network(of: 2)
      let middle = network.hosts[0]
      let far = try await Host()
      let bridge = try middle.start(.discovery, ["--lifetime", "3", "announce", "middle", "1"])
      let near = try network.hosts[1].start(.discovery, ["--lifetime", "3", "announce", "near", "2"])
      let other = try far.start(.discovery, ["--lifetime", "3", "announce", "far", "3"])
      try await bridge.waitForOutput("near at 10.0.0.2:2")
      try await middle.connect("eth1", 1, to: far, "eth0", 2, network: 1)
      try await bridge.waitForOutput("far at 10.0.1.2:3")
      try await other.waitForOutput("middle at 10.0.1.1:1")
      try await middle.ip("link delete eth1")
      try await bridge.waitForOutput("- far at ")
      try await other.waitForOutput("- middle at ")
      // The first network still works.
      await near.stop()
      try await bridge.waitForOutput("- near at ")
      let again = try network.hosts[1].start(.discovery, ["browse"])
      try await again.waitForOutput("middle at 10.0.0.1:1")
      #expect(await !again.output.text.contains("far"))
      for program in [bridge, other, again] { await program.stop() }
    }
  }

  @Test func `The groups are joined on an interface as soon as it comes, and left when it is down`() async throws {
    try await within("the memberships have followed the interfaces") {
      let (host, far) = (try await Host(), try await Host())
      // No interface can be used yet, and no message comes that could wake the program.
      let program = try host.start(.discovery, ["--lifetime", "3600", "announce", "lonely", "1"])
      for round in 1...3 {
        try await host.connect("eth0", 1, to: far, "eth0", 2, network: round)
        try await host.waitForGroups("eth0", areJoined: true)
        try await host.ip("link set eth0 down")
        try await host.waitForGroups("eth0", areJoined: false)
        try await host.ip("link set eth0 up", "address add fe80::1/64 dev eth0 nodad")
        try await host.waitForGroups("eth0", areJoined: true)
        // The same program is heard there.
        let browser = try far.start(.discovery, ["browse"])
        try await browser.waitForOutput("+ lonely at ")
        await browser.stop()
        try await host.ip("link delete eth0")
      }
      await program.kill(SIGTERM)
      #expect(try await program.exitStatus() == 0)
    }
  }

  @Test func `What no program should send does no harm, and a flood finds a limit`() async throws {
    try await within("the programs have found each other") {
      let network = try await Host.network(of: 3)
      let browser = try network.hosts[0].start(.discovery, ["announce", "browser", "1"])
      let evil = try network.hosts[1].start(.python, [Tool.script("peer.py"), "flood"])
      try await evil.waitForOutput("done\n")
      let printer = try network.hosts[2].start(.discovery, ["announce", "printer", "631"])
      #expect(await browser.output.wait { $0.contains(/printer at 10\.0\.0\.3:631, \[fe80::3%\w+\]:631\n/) })
      let lines = await browser.output.text.split(separator: "\n")
      #expect(lines.allSatisfy { !$0.contains("evil") })
      let fakes = lines.count { $0.hasPrefix("+ fake") }
      // The limits are 16 for each of the two addresses of the host.
      #expect((1...32).contains(fakes), "\(fakes)")
      await printer.kill(SIGKILL)
      _ = await printer.output.whole

      // A thousand questions have few answers.
      let asking = try network.hosts[1].start(.python, [Tool.script("peer.py"), "ask", "1000"])
      #expect(try await asking.exitStatus() == 0)
      let answers = try #require(Int(await asking.output.whole.dropLast()))
      #expect((1...6).contains(answers), "\(answers)")
      #expect(await browser.output.text.contains("- printer") == false)
      await browser.kill(SIGTERM)
      #expect(try await browser.exitStatus() == 0)
    }
  }
}

extension ExampleSupport.Host {
  /// Waits until a program of this host is in the group of IPv4 on an interface, or is not.
  fileprivate func waitForGroups(_ interface: String, areJoined: Bool) async throws {
    while true {
      let program = try start(Tool("ip", package: "iproute2"), ["maddress", "show", "dev", interface])
      if await program.output.whole.contains("239.255.77.46") == areJoined { return }
      try Task.checkCancellation()
    }
  }
}
