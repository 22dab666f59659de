// A value that several replicas keep together.
//
//   ReplicatedRegister replica DIRECTORY HOST:PORT       runs a replica that keeps its copy in a directory
//   ReplicatedRegister write VALUE HOST:PORT…            writes a value to a majority of these replicas
//   ReplicatedRegister read HOST:PORT…                   prints the value
//
// SIGTERM or SIGINT stops a replica. The environment variable TIMEOUT has the seconds that a client waits for a majority.

import ActorSockets
import Foundation

func runReplica(in directory: String, at place: Endpoint) async throws {
  let replica = try await Replica(on: LinuxDisk(directory: directory))
  let listener = try TCPListener.bind(to: place)
  for address in listener.localAddresses { print("listening on \(address)") }
  fflush(nil)
  let report = try await serve(replica, on: listener, stopOn: [.terminate, .interrupt])
  print("stopped after \(report.accepted) connections")
}

func withClient<Value: Sendable>(
  of places: some Sequence<String>, _ body: (RegisterClient) async throws -> Value
) async throws -> Value {
  let seconds = ProcessInfo.processInfo.environment["TIMEOUT"].flatMap(Double.init) ?? 10
  let links = try places.map { ReplicaLink(to: try Endpoint(parsing: $0)) }
  let client = RegisterClient(replicas: links, timeout: .seconds(seconds))
  let value = try await body(client)
  await client.close()
  return value
}

do {
  let words = Array(CommandLine.arguments.dropFirst())
  switch words.first {
  case "replica"? where words.count == 3: try await runReplica(in: words[1], at: Endpoint(parsing: words[2]))
  case "write"? where words.count >= 3: try await withClient(of: words[2...]) { try await $0.write(words[1]) }
  case "read"? where words.count >= 2:
    print(try await withClient(of: words[1...]) { try await $0.read() } ?? "(nothing)")
  default:
    print("usage: ReplicatedRegister replica DIRECTORY HOST:PORT | write VALUE HOST:PORT… | read HOST:PORT…")
    exit(2)
  }
} catch {
  FileHandle.standardError.write(Data("\(error)\n".utf8))
  exit(1)
}
