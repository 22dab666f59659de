import ActorSockets

/// Answers each request with what the store has, until SIGTERM or SIGINT comes, and then for as long as the drain lasts.
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
