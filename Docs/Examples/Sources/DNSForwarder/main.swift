// Answers DNS questions by asking other servers, and remembers the answers.
//
//   DNSForwarder LISTEN SERVER…        for example: DNSForwarder 127.0.0.1:5300 9.9.9.9:53 149.112.112.112:53
//
// SIGTERM or SIGINT stops it.

import ActorSockets
import Glibc

let arguments = CommandLine.arguments
guard arguments.count >= 3 else {
  print("usage: DNSForwarder HOST:PORT SERVER:PORT…")
  exit(2)
}

do {
  let forwarder = DNSForwarder(upstream: DNSUpstream(servers: try arguments[2...].map(Endpoint.init(parsing:))))
  let place = try Endpoint(parsing: arguments[1])
  let endpoint = try UDPEndpoint.bind(to: place, configuration: DNSForwarder.endpointConfiguration)
  let listener = try TCPListener.bind(to: place)
  for address in endpoint.localAddresses { print("listening on \(address)") }
  fflush(nil)
  try await withThrowingTaskGroup { group in
    group.addTask { try await forwarder.serve(endpoint) }
    group.addTask {
      try await listener.serve(
        .init(
          limits: .init(connections: 1000, connectionsPerPeer: 100), drain: .within(.seconds(2)),
          stopOn: [.terminate, .interrupt])
      ) { try await forwarder.serve($0) }
      await endpoint.close()
    }
    try await group.waitForAll()
  }
} catch {
  print(error)
  exit(1)
}
