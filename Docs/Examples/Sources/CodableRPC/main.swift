// A service with two methods, and a client for it.
//
//   CodableRPC serve HOST:PORT
//   CodableRPC call HOST:PORT sum NUMBER…
//   CodableRPC call HOST:PORT primes LIMIT
//
// SIGTERM or SIGINT stops the server: the calls that run may finish within 30 seconds.

import ActorSockets
import Foundation

func serve(on place: Endpoint) async throws {
  var server = RPCServer()
  Mathematics.add(to: &server)
  let listener = try TCPListener.bind(to: place)
  for address in listener.localAddresses { print("listening on \(address)") }
  fflush(nil)
  let report = try await listener.serve(
    .init(
      limits: .init(connections: 1000), drain: .within(.seconds(30), idleReads: .endAll),
      stopOn: [.terminate, .interrupt])
  ) { [server] connection in
    try await server.serve(connection)
  }
  print("stopped after \(report.accepted) connections, \(report.aborted) of them aborted")
}

func call(_ place: Endpoint, _ method: String, _ words: [String]) async throws {
  let client = RPCClient(place)
  switch (method, words.compactMap(Double.init)) {
  case ("sum", let numbers) where numbers.count == words.count: print(try await client.call(.sum, numbers))
  case ("primes", let numbers) where numbers.count == 1 && words.count == 1:
    let primes = try await client.call(.primes, Int(exactly: numbers[0]) ?? -1, timeout: .seconds(10))
    print("\(primes.count) primes, the largest is \(primes.largest.map { "\($0)" } ?? "missing")")
  default: throw RPCFailure(.invalidArgument, "call sum with numbers, or primes with a limit")
  }
  await client.close()
}

do {
  let arguments = CommandLine.arguments
  switch arguments.dropFirst().first {
  case "serve"? where arguments.count == 3: try await serve(on: Endpoint(parsing: arguments[2]))
  case "call"? where arguments.count >= 4:
    try await call(Endpoint(parsing: arguments[2]), arguments[3], Array(arguments[4...]))
  default:
    print("usage: CodableRPC serve HOST:PORT | call HOST:PORT METHOD ARGUMENT…")
    exit(2)
  }
} catch {
  FileHandle.standardError.write(Data("\(error)\n".utf8))
  exit(1)
}
