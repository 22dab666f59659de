import SocketSystem
import Testing

@testable import ActorSockets

@Suite struct ConnectPlanTests {
  private let addresses: [SocketAddress] = [
    .ipv6(.loopback, port: 80), .ipv4(.loopback, port: 80), .ipv4(IPv4Address("192.0.2.1") ?? .any, port: 80),
  ]

  private func run(_ plan: inout ConnectPlan, _ codes: [SocketError.Code]) -> (tried: [SocketAddress], SocketError?) {
    var tried: [SocketAddress] = []
    for code in codes + [.system] {
      switch plan.next() {
      case .attempt(let address):
        tried.append(address)
        plan.attemptFailed(SocketError(code, operation: "connect", errno: 111, address: address))
      case .fail(let error): return (tried, error)
      }
    }
    return (tried, nil)
  }

  @Test func `Each address is tried once, in order`() {
    var plan = ConnectPlan(addresses)
    let (tried, error) = run(&plan, [.connectionRefused, .connectionRefused, .connectionRefused])
    #expect(tried == addresses)
    #expect(error != nil)
  }

  @Test func `The failure of a single address is handed on as it is`() {
    var plan = ConnectPlan([addresses[1]])
    let (_, error) = run(&plan, [.connectionRefused])
    #expect(error?.code == .connectionRefused)
    #expect(error?.errno == 111)
    #expect(error?.address == addresses[1])
  }

  @Test func `The error names every address that was tried and what became of it`() {
    var plan = ConnectPlan(addresses)
    let (_, error) = run(&plan, [.connectionRefused, .timedOut, .unreachable])
    #expect(error?.code == .unreachable)
    let text = error?.description ?? ""
    for address in addresses { #expect(text.contains("\(address)")) }
    #expect(text.contains("nobody listens there") && text.contains("the time given is over"))
    #expect(!text.contains("\n"))
  }

  @Test(arguments: [SocketError.Code.connectionRefused, .timedOut, .permissionDenied])
  func `When all fail alike, that is what the error says`(code: SocketError.Code) {
    var plan = ConnectPlan(addresses)
    let (_, error) = run(&plan, [code, code, code])
    #expect(error?.code == code)
  }

  @Test func `Without an address there is nobody to connect to`() {
    var plan = ConnectPlan([])
    let (tried, error) = run(&plan, [])
    #expect(tried == [])
    #expect(error?.code == .hostNotFound)
  }
}
