import ActorSocketsTesting
import Foundation
import Glibc
import SocketSystem
import TestSupport
import Testing

/// Reports of routers have the same effects in a simulation as on Linux, where nftables rejects packets.
@Suite(.serialized, .needsNamespaces) struct RejectionComparisonTests {
  struct Report: CustomTestStringConvertible {
    let rejection: NetworkLink.Rejection
    let isIPv4: Bool
    var testDescription: String { "\(rejection), \(isIPv4 ? "IPv4" : "IPv6")" }

    static let all = [NetworkLink.Rejection.networkUnreachable, .hostUnreachable, .administrativelyProhibited].flatMap {
      [Report(rejection: $0, isIPv4: true), Report(rejection: $0, isIPv4: false)]
    }

    var target: IPAddress { get throws { try IPAddress(parsing: isIPv4 ? "192.0.2.2" : "2001:db8::2") } }

    var rule: String {
      switch rejection {
      case .networkUnreachable: isIPv4 ? "icmp type net-unreachable" : "icmpv6 type no-route"
      case .hostUnreachable: isIPv4 ? "icmp type host-unreachable" : "icmpv6 type addr-unreachable"
      case .administrativelyProhibited: isIPv4 ? "icmp type admin-prohibited" : "icmpv6 type admin-prohibited"
      }
    }
  }

  @Test(arguments: Report.all)
  func `New connections and datagrams hear the same`(report: Report) async throws {
    try await within("both have answered") {
      let network = try await Network(report)
      try await network.reject()
      let target = try report.target
      let linux = try await network.near.run { try Probes(to: target) }
      try await network.hasReported(5)
      let simulated = try await Simulation().runs(report) { simulation, target in
        simulation.reject(report)
        let probes = try Probes(to: target)
        try await simulation.clock.sleep(for: .seconds(1))
        return probes.outcomes
      }
      #expect(linux.outcomes == simulated)
    }
  }

  @Test(arguments: Report.all)
  func `A report fails no call on an open connection, and is its error when it times out`(report: Report)
    async throws
  {
    try await within("both have timed out") {
      let network = try await Network(report)
      let target = try report.target
      let linux = try await network.near.run { try OpenConnection(to: target) }
      try linux.waits(for: POLLOUT)
      try await network.reject()
      try linux.send()
      try await network.hasReported(1)
      linux.noteErrors()
      try linux.waits(for: POLLERR)
      linux.noteErrors()
      let simulated = try await Simulation().runs(report) { simulation, target in
        let connection = try OpenConnection(to: target)
        try await simulation.clock.sleep(for: .milliseconds(100))
        simulation.reject(report)
        try connection.send()
        try await simulation.clock.sleep(for: .milliseconds(100))
        connection.noteErrors()
        try await simulation.clock.sleep(for: .seconds(60))
        connection.noteErrors()
        return connection.errors
      }
      #expect(linux.errors == simulated)
      // Even SO_ERROR clears it only until the next report.
      #expect(simulated == [EAGAIN, simulated[1], simulated[1], simulated[1]] && simulated[1] != ETIMEDOUT)
    }
  }

  /// Two networks. The second one has a listening socket at port 8.
  private struct Network {
    let near: Namespace
    private let far: Namespace
    private let report: Report
    private let listener: RawSocket

    init(_ report: Report) async throws {
      self.report = report
      (near, far) = try await Namespace.pair()
      for (namespace, own, other) in [(near, 1, 2), (far, 2, 1)] {
        try await namespace.ip(
          "address add 2001:db8::\(own)/64 dev cable nodad",
          "neighbour replace 2001:db8::\(other) lladdr 02:00:00:00:00:0\(other) dev cable nud permanent")
        try await namespace.receives(at: "2001:db8::\(own)")
      }
      let target = try report.target
      listener = try await far.run { try RawSocket.listening(on: target.socketAddress(port: 8)) }
    }

    /// Rejects what comes from now on. Linux does not limit the number of reports.
    func reject() async throws {
      try await far.shell([
        "echo 0 > /proc/sys/net/ipv4/icmp_ratelimit", "echo 0 > /proc/sys/net/ipv6/icmp/ratelimit",
        "nft add table inet filter", "nft 'add chain inet filter input { type filter hook input priority 0; }'",
        "nft add rule inet filter input meta l4proto '{ tcp, udp }' reject with \(report.rule)",
      ])
    }

    /// Waits until a number of reports have arrived: /proc/net/snmp.
    func hasReported(_ count: Int) async throws {
      let isIPv4 = report.isIPv4
      try await eventually("\(count) reports have arrived") {
        try await near.run { try Self.reports(isIPv4: isIPv4) } >= count
      }
    }

    private static func reports(isIPv4: Bool) throws -> Int {
      let file = isIPv4 ? "snmp" : "snmp6"
      let text = try String(contentsOfFile: "/proc/thread-self/net/\(file)", encoding: .utf8)
      let rows = text.split(separator: "\n").map { $0.split(whereSeparator: \.isWhitespace) }
      if !isIPv4 { return rows.first { $0[0] == "Icmp6InDestUnreachs" }.flatMap { Int($0[1]) } ?? 0 }
      let icmp = rows.filter { $0[0] == "Icmp:" }
      guard icmp.count == 2, let column = icmp[0].firstIndex(of: "InDestUnreachs") else { return 0 }
      return Int(icmp[1][column]) ?? 0
    }
  }
}

extension Simulation {
  /// Runs a body on a host, with the address of another one that has a listening socket at port 8.
  fileprivate func runs<Value: Sendable>(
    _ report: RejectionComparisonTests.Report,
    _ body: @escaping @Sendable (Simulation, IPAddress) async throws -> Value
  ) async throws -> Value {
    try await run {
      let server = self.host("server")
      let target = try #require(server.addresses.first { $0.isIPv4 == report.isIPv4 })
      _ = try await server.run {
        let listener = try OwnedDescriptor.streamSocket(family: report.isIPv4 ? AF_INET : AF_INET6)
        try listener.socket.bind(to: target.socketAddress(port: 8))
        try listener.socket.listen(backlog: 5)
        return listener.release()
      }
      return try await self.host("client").run { try await body(self, target) }
    }
  }

  fileprivate func reject(_ report: RejectionComparisonTests.Report) {
    setLink(NetworkLink(rejection: report.rejection), from: host("client"), to: host("server"))
  }
}

extension NetworkLink {
  fileprivate init(rejection: Rejection) {
    self.init()
    self.rejection = rejection
  }
}

/// A socket that connects, and datagram sockets of all kinds that have sent one datagram.
private final class Probes: Sendable {
  private let numbers: [Int32]

  init(to target: IPAddress) throws {
    let family = target.isIPv4 ? AF_INET : AF_INET6
    let stream = try OwnedDescriptor.streamSocket(family: family)
    _ = try stream.socket.connect(to: target.socketAddress(port: 7))
    var numbers = [stream.release()]
    for (keepsReports, isConnected) in [(false, false), (false, true), (true, false), (true, true)] {
      let socket = try OwnedDescriptor.datagramSocket(family: family)
      if keepsReports { try socket.socket.set(.errors(isIPv4: target.isIPv4), to: 1) }
      let address = target.socketAddress(port: 9)
      if isConnected { _ = try socket.socket.connect(to: address) }
      guard case .bytes(1) = socket.socket.send([1].span, to: isConnected ? nil : address) else {
        throw Overdue(description: "the datagram was not sent")
      }
      numbers.append(socket.release())
    }
    self.numbers = numbers
  }

  deinit { for number in numbers { _ = OwnedDescriptor(owning: number) } }

  /// For each socket the pending error, the reports in its error queue, and what is pending then.
  var outcomes: [[Int32]] {
    numbers.enumerated().map { index, number in
      let socket = BorrowedDescriptor(number)
      var errors = [socket.takeError()]
      while index > 0, let report = socket.takeReportedError() { errors.append(report.errno) }
      return errors + [socket.takeError()]
    }
  }
}

/// A connection, whose unacknowledged bytes time out soon.
private final class OpenConnection: Sendable {
  private let socket: OwnedDescriptor
  private let noted = Notes<Int32>()

  init(to target: IPAddress) throws {
    socket = try OwnedDescriptor.streamSocket(family: target.isIPv4 ? AF_INET : AF_INET6)
    try socket.socket.set(.userTimeout, to: 300)
    _ = try socket.socket.connect(to: target.socketAddress(port: 8))
  }

  var errors: [Int32] { noted.all }

  func noteErrors() {
    var bytes: [UInt8] = []
    let error: Int32 =
      switch socket.socket.receive(appendingTo: &bytes, atMost: 1) {
      case .bytes: 0
      case .wouldBlock: EAGAIN
      case .failed(let error): error.errno
      }
    noted.add(error)
    noted.add(socket.socket.takeError())
  }

  func send() throws {
    guard case .bytes(1) = socket.socket.send([1].span) else { throw Overdue(description: "the byte was not sent") }
  }

  func waits(for event: Int32) throws {
    var entry = pollfd(fd: socket.number, events: Int16(event), revents: 0)
    // SAFETY: one struct pollfd is read and written, which `entry` is.
    if unsafe poll(&entry, 1, 30_000) != 1 { throw Overdue(description: "the event has not come") }
  }
}

extension BorrowedDescriptor {
  fileprivate func takeError() -> Int32 { (try? get(.pendingError)) ?? -1 }
}
