import ActorSockets
import SocketSystem

/// A resolver that answers as a closure does.
struct ScriptedResolver: Resolver {
  let answer: @Sendable (_ name: String, _ family: AddressFamily) async throws -> [SocketAddress]

  @concurrent func addresses(of name: String, family: AddressFamily) async throws -> [SocketAddress] {
    try await answer(name, family)
  }
}
