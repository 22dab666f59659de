// Values that three or five nodes keep together: Raft.
//
//   Raft node NUMBER DIRECTORY HOST:PORT…      runs the node with this number; the places are those of all nodes, in their order
//   Raft put KEY VALUE HOST:PORT…              stores a value
//   Raft get KEY HOST:PORT…                    prints a value
//
// SIGTERM or SIGINT stops a node. The environment variable TIMEOUT has the seconds that a client waits for a leader.

import ActorSockets
import Foundation

func runNode(_ number: Int, in directory: String, at places: some Sequence<String>) async throws {
  let endpoints = try places.map { try Endpoint(parsing: $0) }
  let nodes = Array(1...endpoints.count)
  guard nodes.contains(number) else { throw Usage() }
  let node = try await RaftNode(
    RaftConfiguration(id: number, nodes: nodes), on: LinuxDisk(directory: directory))
  let listener = try TCPListener.bind(to: endpoints[number - 1])
  for address in listener.localAddresses { print("listening on \(address)") }
  fflush(nil)
  let others = nodes.filter { $0 != number }.map { ($0, endpoints[$0 - 1]) }
  try await node.run(on: listener, others: Dictionary(uniqueKeysWithValues: others), stopOn: [.terminate, .interrupt])
}

func withClient<Value: Sendable>(
  of places: some Sequence<String>, _ body: (RaftClient) async throws -> Value
) async throws -> Value {
  let seconds = ProcessInfo.processInfo.environment["TIMEOUT"].flatMap(Double.init) ?? 10
  let client = RaftClient(nodes: try places.map { try Endpoint(parsing: $0) }, timeout: .seconds(seconds))
  let value = try await body(client)
  await client.close()
  return value
}

struct Usage: Error {}

do {
  let words = Array(CommandLine.arguments.dropFirst())
  switch words.first {
  case "node"? where words.count >= 6:
    guard let number = Int(words[1]) else { throw Usage() }
    try await runNode(number, in: words[2], at: words[3...])
  case "put"? where words.count >= 4:
    try await withClient(of: words[3...]) { try await $0.put(Array(words[1].utf8), Array(words[2].utf8)) }
  case "get"? where words.count >= 3:
    let value = try await withClient(of: words[2...]) { try await $0.get(Array(words[1].utf8)) }
    print(value.map { String(decoding: $0, as: UTF8.self) } ?? "(nothing)")
  default: throw Usage()
  }
} catch is Usage {
  print("usage: Raft node NUMBER DIRECTORY HOST:PORT… | put KEY VALUE HOST:PORT… | get KEY HOST:PORT…")
  exit(2)
} catch {
  FileHandle.standardError.write(Data("\(error)\n".utf8))
  exit(1)
}
