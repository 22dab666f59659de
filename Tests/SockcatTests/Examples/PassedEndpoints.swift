import ActorSockets

/// The endpoints of a name server: on the sockets that systemd has bound, or else on its own.
func nameServerEndpoints(port: UInt16) throws -> [UDPEndpoint] {
  let endpoints = try UDPEndpoint.activated(named: "dns")
  return endpoints.isEmpty ? [try UDPEndpoint.bind(to: .port(port))] : endpoints
}
