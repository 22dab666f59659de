import Foundation
import TestSupport
import Testing

@Suite(.needs(.nsenter), .needsNamespaces) struct UDPNetworkTests {
  @Test func `A broadcast reaches another host, and is answered from there`() async throws {
    let (near, far) = try await Namespace.pair()
    let (listener, _) = try await Program.udpListening([":9000", "--echo"], in: far)
    // The answer is not from the address that the broadcast was sent to.
    try await Program.udpExchange(
      ["192.0.2.255:9000", "--broadcast"], "everybody\n", expecting: "192.0.2.2:9000 9 everybody\n", in: near)
    let refused = try await Program.sockcat(["udp-send", "192.0.2.255:9000"], input: .pipe, in: near)
    #expect(try await refused.exitStatus() == 1)
    #expect(await refused.errors.whole.contains("--broadcast"))
    try await listener.stop()
    #expect(await listener.output.whole.hasPrefix("192.0.2.1:"))
  }

  @Test(arguments: [("239.1.2.3", "0.0.0.0:9000", "239.1.2.3:9000"), ("ff15::17", "[::]:9000", "[ff15::17]:9000")])
  func `A group has several members on a host, and is joined on one interface`(
    group: String, everywhere: String, endpoint: String
  ) async throws {
    let (near, far) = try await Namespace.pair()
    try await near.ip("address add 2001:db8::1/64 dev cable nodad")
    try await far.ip("address add 2001:db8::2/64 dev cable nodad", "link set lo up")
    try await near.receives(at: "2001:db8::1")
    try await far.receives(at: "2001:db8::2")
    let joining = [everywhere, "--join", group, "--interface", "cable"]
    let (first, _) = try await Program.udpListening(joining + ["--echo"], in: far)
    let (second, _) = try await Program.udpListening(joining, in: far)
    let (elsewhere, _) = try await Program.udpListening([everywhere, "--join", group, "--interface", "lo"], in: far)
    let sender = try await Program.sockcat(
      ["udp-send", endpoint, "--interface", "cable", "--ttl", "3", "--wait", "0.1"], input: .pipe, in: near)
    try await sender.send("hello\n")
    for member in [first, second] { try await member.waitForOutput("5 hello\n") }
    // A member answers from an address of its own.
    try await sender.waitForOutput(group == "ff15::17" ? "[2001:db8::2]:9000 5 hello\n" : "192.0.2.2:9000 5 hello\n")
    try await sender.finish()
    for program in [first, second, elsewhere] {
      try await program.stop()
    }
    // IPv6 asks only whether a socket has joined the group, not where.
    if group == "239.1.2.3" { #expect(await elsewhere.output.whole == "") }
  }

  @Test(arguments: [Family.ipv4, .ipv6])
  func `Datagrams pass as many routers as they may`(family: Family) async throws {
    let (near, router) = try await Namespace.pair()
    try await router.ip("link add end type veth peer name other", "link set end up", "link set other up")
    try await router.ip("address add 198.51.100.1/24 dev end", "address add 2001:db8:1::1/64 dev end nodad")
    try await router.ip("address add 2001:db8::2/64 dev cable nodad")
    try await router.shell(["ipv4/ip_forward", "ipv6/conf/all/forwarding"].map { "echo 1 > /proc/sys/net/\($0)" })
    try await near.ip("address add 2001:db8::1/64 dev cable nodad", "route add default via 192.0.2.2")
    try await near.ip("-6 route add default via 2001:db8::2")
    try await near.receives(at: "2001:db8::1")
    try await router.receives(at: "2001:db8::2")
    let (host, endpoint) = family == .ipv4 ? ("198.51.100.7", "198.51.100.7:9") : ("2001:db8:1::7", "[2001:db8:1::7]:9")
    try await router.ip("neighbour add \(host) lladdr 02:00:00:00:00:07 dev end nud permanent")
    let short = try await Program.sockcat(["udp-send", endpoint, "--ttl", "1", "--wait", "20"], input: .pipe, in: near)
    try await short.send("hello\n")
    // The router says that the way was too long.
    #expect(try await short.exitStatus() == 1)
    #expect(await short.errors.lines.count == 1)
    #expect(await short.errors.whole.contains(endpoint))
    try await Program.udpSend([endpoint, "--ttl", "2", "--wait", "0.2"], "hello\n", in: near)
  }

  @Test(.needs(.socat))
  func `socat is a member of a group that is sent to`() async throws {
    let (near, far) = try await Namespace.pair()
    let socat = try await Program.started(
      .socat, ["-d", "-d", "-u", "UDP4-RECV:9000,ip-add-membership=239.1.2.3:cable", "-"], in: far)
    try await socat.waitForError("starting data transfer loop")
    try await Program.udpSend(["239.1.2.3:9000", "--interface", "192.0.2.1"], "hello, group", in: near)
    try await socat.waitForOutput("hello, group")
    await socat.kill(SIGKILL)
  }

  @Test(.needs(.socat))
  func `socat sends to a group that is listened to`() async throws {
    let (near, far) = try await Namespace.pair()
    let (listener, _) = try await Program.udpListening(
      [":9000", "--join", "239.1.2.3", "--interface", "192.0.2.2", "--count", "1"], in: far)
    let socat = try await Program.started(
      .socat, ["-u", "-", "UDP4-DATAGRAM:239.1.2.3:9000,ip-multicast-if=192.0.2.1"], input: .pipe, in: near)
    try await socat.send("hello")
    #expect(try await listener.exitStatus() == 0)
    #expect(await listener.output.whole.hasPrefix("192.0.2.1:"))
    await socat.kill(SIGKILL)
  }
}
