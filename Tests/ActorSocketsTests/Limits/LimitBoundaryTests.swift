import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

/// The limits of the page hold: exactly the limit is accepted, and one more is not. The number is that of the page's row, so a row that
/// changes is tried with its new number.
@Suite struct LimitBoundaryTests {
  /// A row of the page, and what it limits.
  struct Boundary: Sendable, CustomTestStringConvertible {
    let what: String
    /// The position of the limit among the numbers of the row.
    var position = 0
    /// Returns whether this number is accepted.
    let accepts: @Sendable (Int) async throws -> Bool

    var testDescription: String { position == 0 ? what : "\(what), number \(position + 1)" }
  }

  static let boundaries: [Boundary] = messages + proxies + others

  private static let messages: [Boundary] = [
    Boundary(what: "bytes of a message, a line, or a read through a delimiter") { count in
      let (near, far) = wide()
      try await far.write([UInt8](repeating: 65, count: count - 1) + [10])
      return try await isWithinLimit { _ = try await near.read(until: .lf) }
    },
    Boundary(what: "bytes of a message, a line, or a read through a delimiter") { count in
      let (near, far) = wide()
      try await far.write([UInt8](repeating: 65, count: count - 1) + [10])
      return try await isWithinLimit { for try await _ in near.lines() { break } }
    },
    Boundary(what: "bytes of a message, a line, or a read through a delimiter") { count in
      let (near, far) = wide()
      try await far.write(message: [UInt8](repeating: 65, count: count), lengthPrefix: .uint32(.big))
      return try await isWithinLimit { for try await _ in near.messages(lengthPrefix: .uint32(.big)) { break } }
    },
    Boundary(what: "bytes of a read of the available bytes") { count in
      let (near, far) = wide()
      try await far.write([UInt8](repeating: 65, count: count))
      return try await near.read()?.count == count
    },
    Boundary(what: "messages of a batch; bytes, without the last message") { count in
      var driver = ReadDriver()
      driver.admit(.batch(of: .line(.lf, maximumLength: 1)), 1)
      driver.receive([UInt8](repeating: 10, count: count)[...])
      guard case .batch(let batch)? = driver.results.first else { return false }
      return batch.count == count
    },
    Boundary(what: "bytes that wait at one end of an in-memory connection") { count in
      let (near, far) = InMemoryConnection.pair()
      defer { withExtendedLifetime(far) {} }
      do {
        try await near.write([UInt8](repeating: 1, count: count), timeout: .zero)
        return true
      } catch let error as SocketError where error.code == .timedOut {
        return false
      }
    },
  ]

  private static let proxies: [Boundary] = [
    Boundary(what: "bytes of an HTTP proxy's answer") { count in
      let begin = Array("HTTP/1.1 200 OK\r\nA: ".utf8)
      let end = Array("\r\n\r\n".utf8)
      let answer = begin + [UInt8](repeating: 65, count: count - begin.count - end.count) + end
      var machine = try HTTPConnectPreamble(to: ProxyTarget(.host("a", port: 1)), nil)
      return PreambleDriver.run(&machine, answers: [answer]).error == nil
    },
    Boundary(what: "interim answers of an HTTP proxy") { count in
      let interim = String(repeating: "HTTP/1.1 102 Processing\r\n\r\n", count: count)
      var machine = try HTTPConnectPreamble(to: ProxyTarget(.host("a", port: 1)), nil)
      return PreambleDriver.run(&machine, answers: [Array((interim + "HTTP/1.1 200 OK\r\n\r\n").utf8)]).error == nil
    },
    Boundary(what: "bytes of a PROXY header") { count in
      // One field fills the header up: 3 bytes and its value.
      let header = ProxyHeader(fields: [.init(.init(rawValue: 0xe0), [UInt8](repeating: 0, count: count - 16 - 3))])
      let limit = ProxyProtocol(.required, from: []).maximumLength
      return (try? ProxyHeader.beginning(of: header.encoded(), limit: limit)) != nil
    },
    Boundary(what: "bytes of a PROXY header", position: 2) { count in
      let begin = Array("PROXY UNKNOWN ".utf8)
      let line = begin + [UInt8](repeating: 65, count: count - begin.count - 2) + [13, 10]
      return (try? ProxyHeader.beginning(of: line, limit: 4096)) != nil
    },
    Boundary(what: "fields of a PROXY header") { count in
      let address = SocketAddress.ipv4(.loopback, port: 1)
      let fields = (0..<count).map { _ in ProxyHeader.Field(.init(rawValue: 0xe0), []) }
      let header = ProxyHeader(source: address, destination: address, fields: fields)
      return (try? ProxyHeader.beginning(of: header.encoded(), limit: 4096)) != nil
    },
  ]

  private static let others: [Boundary] = [
    Boundary(what: "addresses of a name that are tried, for each family") { count in
      var machine = HappyEyeballs(awaiting: .any, attemptDelay: 0)
      let addresses = (0..<count).map {
        SocketAddress.ipv4(IPv4Address("10.0.\($0 >> 8).\($0 & 255)") ?? .any, port: 80)
      }
      machine.resolved(.ipv6, .success([]), at: 0)
      machine.resolved(.ipv4, .success(addresses), at: 0)
      return HappyEyeballsTests.failAll(&machine, [.connectionRefused]).0 == count
    },
    Boundary(what: "reported errors that wait to be read") { count in
      var reports = ErrorReports()
      for _ in 0..<count {
        reports.add(.init(error: SocketError(.unreachable, operation: "send"), reporter: nil, largestPacket: nil))
      }
      var taken = 0
      while reports.take() != nil { taken += 1 }
      return taken == count
    },
    Boundary(what: "bytes of a received datagram, IPv4") { try await receives($0, .ipv4(.loopback, port: 0)) },
    Boundary(what: "bytes of a received datagram, IPv6") { try await receives($0, .ipv6(.loopback, port: 0)) },
    Boundary(what: "bytes of a sent datagram") { count in
      let receiver = try UDPEndpoint.bind(to: .unix(path: ""))
      let sender = try UDPEndpoint.bind(to: .unix(path: ""))
      return try await isWithinLimit {
        try await sender.send([UInt8](repeating: 1, count: count), to: receiver.localAddresses[0])
      }
    },
    Boundary(what: "reactors of `serve`", position: 1) { count in
      let listener = try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)))
      await listener.close()
      do {
        try await listener.serve(reactors: count) { _ in }
        return true
      } catch let error as SocketError {
        return error.code != .invalidArgument
      }
    },
  ]

  /// Two connected streams with room for everything here.
  private static func wide() -> (InMemoryConnection, InMemoryConnection) {
    var configuration = InMemoryConnection.Configuration()
    configuration.capacity = 1 << 20
    return InMemoryConnection.pair(configuration: configuration)
  }

  private static func isWithinLimit(_ body: () async throws -> Void) async throws -> Bool {
    do {
      try await body()
      return true
    } catch let error as SocketError where error.code == .limitExceeded {
      return false
    }
  }

  private static func receives(_ count: Int, _ address: SocketAddress) async throws -> Bool {
    let receiver = try UDPEndpoint.bind(to: .address(address))
    let sender = try UDPEndpoint.bind(to: .address(address))
    try await sender.send([UInt8](repeating: 1, count: count), to: receiver.localAddresses[0])
    return try await !receiver.receive().isTruncated
  }

  @Test(arguments: boundaries)
  func `Exactly the limit is accepted, and one more is not`(boundary: Boundary) async throws {
    try await within("both are tried") {
      let page = try LimitsPage.ofRepository()
      let row = try #require(page.rows.first { $0.what == boundary.what }, "the page has no such row")
      let numbers = row.values.compactMap { if case .number(let number) = $0 { number } else { nil } }
      let limit = try #require(numbers.indices.contains(boundary.position) ? numbers[boundary.position] : nil)
      #expect(try await boundary.accepts(limit), "\(limit) is refused")
      #expect(try await !boundary.accepts(limit + 1), "\(limit + 1) is accepted")
    }
  }
}
