import ActorSockets
import ByteText
import ExampleSupport

@testable import MQTTBroker

extension Tool {
  static let mosquittoPub = Tool("mosquitto_pub", package: "mosquitto-clients")
  static let mosquittoSub = Tool("mosquitto_sub", package: "mosquitto-clients")
  static let mqttBroker = Tool(example: "MQTTBroker")
}

/// A broker in this process.
struct RunningBroker: Sendable {
  let address: SocketAddress
  let listener: TCPListener
  let broker: MQTTBroker
  private let serving: Task<ServeReport, any Error>

  init(
    limits: MQTTBroker.Limits = .init(), authorize: @escaping @Sendable (MQTTConnect) -> Bool = { _ in true }
  ) async throws {
    broker = MQTTBroker(limits: limits, authorize: authorize)
    var configuration = TCPListener.Configuration()
    configuration.connection = MQTTBroker.connectionConfiguration
    let ready = MQTTMessage(
      topic: ByteText("test/ready"), payload: Array("ready".utf8), quality: 0, isRetained: true)
    await broker.publish(ready, from: ByteText("test"))
    listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0), configuration: configuration)
    address = listener.localAddresses[0]
    serving = Task { [listener, broker] in try await listener.serve { try await broker.serve($0) } }
  }

  private var place: [String] { ["-h", "127.0.0.1", "-p", "\(address.port ?? 0)"] }

  /// Publishes with mosquitto_pub, and waits for its end.
  func publish(_ message: String, to topic: String, _ options: String...) async throws {
    _ = try await Program.run(.mosquittoPub, place + ["-t", topic, "-m", message] + options)
  }

  /// Starts mosquitto_sub, and waits until it has subscribed: then it prints the retained message "ready".
  func subscriber(_ options: String...) async throws -> Program {
    let program = try Program(.mosquittoSub, place + ["-v", "-t", "test/ready"] + options)
    try await program.waitForOutput("test/ready ready\n")
    return program
  }

  /// Connects without a client library.
  func connect() async throws -> TCPConnection { try await TCPConnection.connect(to: .address(address)) }

  func stop() async throws -> ServeReport {
    await listener.drain(within: .seconds(20))
    return try await serving.value
  }
}
