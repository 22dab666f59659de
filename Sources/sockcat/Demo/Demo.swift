import ActorSockets

/// Each scene also checks what it shows.
struct Demo {
  private let output: StandardOutput

  init() { output = StandardOutput() }

  func run() async throws {
    try await title("A chat: a line server, three clients")
    try await scene { try await chat() }
    try await title("Messages with their length in front")
    try await scene { try await messages() }
    try await title("Pipelining: five questions before the first answer")
    try await scene { try await pipelining() }
    try await title("A time-out that loses no byte")
    try await scene { try await timeout() }
    try await title("A server that stops: graceful where it can be, bounded where it cannot")
    try await scene { try await draining() }
    try await title("Datagrams: questions, answers, and one without a receiver")
    try await scene { try await datagrams() }
    try await title("A multicast group: sent once, received by all of its members")
    try await scene { try await multicast() }
    try await title("An upgrade in mid-stream: the same connection continues encrypted")
    try await scene { try await upgrade() }
    try await output.write(utf8: "\nEverything worked as expected.\n")
  }

  // MARK: Output and checks

  func say(_ line: String) async throws { try await output.write(utf8: "   \(line)\n") }

  func check(_ isTrue: Bool, _ what: String) throws {
    if !isTrue { throw Failure(.inputOutput, "the demo failed: \(what)") }
  }

  private func title(_ text: String) async throws { try await output.write(utf8: "\n-- \(text)\n") }

  private func scene(_ body: @escaping @Sendable () async throws -> Void) async throws {
    try await within(.seconds(20), orFailWith: "the demo makes no progress", body)
  }

  func serving(
    _ handler: @escaping @Sendable (TCPConnection) async throws -> Void,
    _ body: (_ listener: TCPListener, _ endpoint: Endpoint) async throws -> Void
  ) async throws {
    let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
    async let report = listener.serve(handler: handler)
    try await body(listener, .address(listener.localAddresses[0]))
    await listener.drain(within: .seconds(1))
    _ = try await report
  }
}
