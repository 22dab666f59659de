// An MQTT 3.1.1 broker.
//
//   MQTTBroker [HOST:PORT]
//
// SIGTERM or SIGINT stops it.

import ActorSockets
import Glibc

do {
  var configuration = TCPListener.Configuration()
  configuration.connection = MQTTBroker.connectionConfiguration
  let arguments = CommandLine.arguments
  let place = try Endpoint(parsing: arguments.count > 1 ? arguments[1] : "localhost:1883")
  let listener = try TCPListener.bind(to: place, configuration: configuration)
  for address in listener.localAddresses { print("listening on \(address)") }
  fflush(nil)
  let broker = MQTTBroker()
  try await listener.serve(.init(drain: .within(.seconds(5)), stopOn: [.terminate, .interrupt])) {
    try await broker.serve($0)
  }
} catch {
  print(error)
  exit(1)
}
