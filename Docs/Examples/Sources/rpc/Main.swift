import ActorSockets

@main struct Main {
  static func main() async throws {
    let arguments = CommandLine.arguments.dropFirst()
    let numbers = arguments.dropFirst(3).compactMap { Int($0) }
    switch (arguments.first, arguments.dropFirst().first.flatMap { UInt16($0) }, arguments.dropFirst(2).first) {
    case ("serve", let port?, nil): try await serve(.port(port))
    case ("call", let port?, "add") where numbers.count == 2: try await call(port, .add(numbers[0], numbers[1]))
    case ("call", let port?, "divide") where numbers.count == 2:
      try await call(port, .divide(numbers[0], by: numbers[1]))
    default: print("usage: rpc serve PORT | rpc call PORT add|divide NUMBER NUMBER")
    }
  }

  private static func serve(_ endpoint: Endpoint) async throws {
    let listener = try TCPListener.bind(to: endpoint)
    try await listener.serve(stopOn: [.terminate, .interrupt]) { connection in
      try await serveCalls(of: connection) { (call: Arithmetic) in try Arithmetic.answer(call) }
    }
  }

  private static func call(_ port: UInt16, _ call: Arithmetic) async throws {
    let client = Client<Arithmetic, Int>(try await TCPConnection.connect(to: .port(port)))
    print(try await client.call(call))
    await client.close()
  }
}
