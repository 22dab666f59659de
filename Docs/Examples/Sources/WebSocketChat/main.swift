// A chat in the browser.
//
//   WebSocketChat [HOST:PORT]
//
// SIGTERM or SIGINT stops it.

import ActorSockets
import Glibc

do {
  var configuration = TCPListener.Configuration()
  configuration.connection = ChatServer.connectionConfiguration
  let arguments = CommandLine.arguments
  let place = try Endpoint(parsing: arguments.count > 1 ? arguments[1] : "localhost:8080")
  let listener = try TCPListener.bind(to: place, configuration: configuration)
  for address in listener.localAddresses { print("listening on \(address)") }
  fflush(nil)
  let server = ChatServer(room: ChatRoom())
  try await listener.serve(
    .init(limits: .init(connectionsPerPeer: 100), drain: .within(.seconds(5)), stopOn: [.terminate, .interrupt])
  ) { try await server.serve($0) }
} catch {
  print(error)
  exit(1)
}
