import ActorSockets

/// Answers each request from the store. After SIGTERM or SIGINT, it answers only the requests that already wait, for up to 10 seconds.
func answerRequests(
  on endpoint: UDPEndpoint, from store: @escaping @Sendable ([UInt8]) async throws -> [UInt8]
) async throws -> UDPEndpoint.ServeReport {
  let options = UDPEndpoint.ServeOptions(
    handlers: 200, overflow: .dropOldest, drain: .within(.seconds(10)), stopOn: [.terminate, .interrupt])
  return try await endpoint.serve(options) { request in
    // While this waits for the store, other requests have their own handlers.
    try await endpoint.send(request.reply(store(request.bytes)))
  }
}
