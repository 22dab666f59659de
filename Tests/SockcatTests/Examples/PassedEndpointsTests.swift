import ActorSockets
import TestSupport
import Testing

/// The example of sockets that other programs have bound in the article about datagrams.
struct PassedEndpointsTests {
  @Test func `A name server that systemd has not started binds its own socket`() async throws {
    let endpoints = try nameServerEndpoints(port: 0)
    #expect(endpoints.count == 1)
    for endpoint in endpoints {
      #expect(endpoint.port != 0)
      await endpoint.close()
    }
  }
}
