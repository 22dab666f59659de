import ActorSockets
import Glibc
import SocketSystem
import TestSupport
import Testing

/// Endpoints of whose sockets another part of the process has a duplicate. Then close(2) does not remove their registration: epoll(7),
/// questions and answers.
@Suite(.endsInTime) struct SharedEndpointTests {
  enum Local: String, CaseIterable, CustomTestStringConvertible {
    case ipv4, ipv6, both, unix, unnamed

    var testDescription: String { rawValue }

    var endpoint: Endpoint {
      switch self {
      case .ipv4: .address(.ipv4(.loopback, port: 0))
      case .ipv6: .address(.ipv6(.loopback, port: 0))
      case .both: .port(0)
      case .unix: .unix(path: "@shared-\(getpid())")
      case .unnamed: .unix(path: "")
      }
    }
  }

  @Test(arguments: Local.allCases, [false, true])
  func `A closed endpoint whose socket stays open elsewhere wakes the reactor no more`(
    local: Local, isPrepared: Bool
  ) async throws {
    let duplicates = Notes<RawSocket>()
    var configuration = UDPEndpoint.Configuration()
    if isPrepared { configuration.prepare = { duplicates.add(RawSocket(owning: dup($0.fileDescriptor))) } }
    let endpoint = try UDPEndpoint.bind(to: local.endpoint, configuration: configuration)
    if !isPrepared { duplicates.add(try await endpoint.withFileDescriptor { RawSocket(owning: dup($0)) }) }
    for duplicate in duplicates.all {
      try await eventually("it is registered") { try epollsWatching(duplicate.number) == 1 }
    }
    await endpoint.close()
    #expect(!duplicates.all.isEmpty)
    for duplicate in duplicates.all {
      #expect(try epollsWatching(duplicate.number) == 0)
      duplicate.close()
    }
  }

  @Test(arguments: [Local.ipv4, .ipv6])
  func `The socket of several that is connected is the one of which a duplicate is expected`(
    local: Local
  ) async throws {
    let peer = try UDPEndpoint.bind(to: local.endpoint)
    let endpoint = try UDPEndpoint.bind(to: .host("localhost", port: 0))
    try await endpoint.connect(to: .address(peer.localAddresses[0]))
    let duplicate = try await endpoint.withFileDescriptor { RawSocket(owning: dup($0)) }
    try await eventually("it is registered") { try epollsWatching(duplicate.number) == 1 }
    await endpoint.close()
    #expect(try epollsWatching(duplicate.number) == 0)
    duplicate.close()
  }
}
