// Announces a service, and prints the services that others announce.
//
//   Discovery [--lifetime SECONDS] announce NAME PORT [KEY=VALUE…]
//   Discovery [--lifetime SECONDS] browse
//
// SIGTERM or SIGINT stops it, after a goodbye to the others.

import ActorSockets
import Glibc

func line(_ sign: String, _ peer: DiscoveredPeer) -> String {
  let properties = peer.service.properties.sorted { $0.key < $1.key }.map { " \($0.key)=\($0.value)" }.joined()
  return "\(sign) \(peer.service.name) at \(peer.addresses.map { "\($0)" }.joined(separator: ", "))\(properties)"
}

func run(_ discovery: Discovery) async throws {
  let signals = try ProcessSignals([.terminate, .interrupt])
  try await withThrowingTaskGroup { group in
    group.addTask { try await discovery.run() }
    group.addTask { for await _ in signals { return } }
    group.addTask {
      for await event in discovery.events {
        switch event {
        case .found(let peer): print(line("+", peer))
        case .changed(let peer): print(line("*", peer))
        case .lost(let peer): print(line("-", peer))
        }
        fflush(nil)
      }
    }
    try await group.next()
    group.cancelAll()
    try await group.waitForAll()
  }
}

var words = Array(CommandLine.arguments.dropFirst())
var configuration = Discovery.Configuration()
if words.count >= 2, words[0] == "--lifetime", let seconds = UInt16(words[1]), seconds > 0 {
  configuration.settings.lifetime = seconds
  words.removeFirst(2)
}
var service: DiscoveredService?
switch words.first {
case "browse"? where words.count == 1: break
case "announce"? where words.count >= 3 && UInt16(words[2]) != nil:
  service = DiscoveredService(name: words[1], port: UInt16(words[2]) ?? 0)
  for word in words[3...] {
    let parts = word.split(separator: "=", maxSplits: 1, omittingEmptySubsequences: false).map(String.init)
    service?.properties[parts[0]] = parts.count == 2 ? parts[1] : ""
  }
default:
  print("usage: Discovery [--lifetime SECONDS] announce NAME PORT [KEY=VALUE…] | browse")
  exit(2)
}

do {
  try await run(Discovery(announcing: service, configuration: configuration))
} catch {
  print(error)
  exit(1)
}
