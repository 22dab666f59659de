// A server with a control socket, which hands its listening socket to its successor.
//
//   ControlSocket serve HOST:PORT PATH     begins to serve
//   ControlSocket take-over PATH           serves in place of the process whose control socket is at PATH
//   ControlSocket ask PATH COMMAND         gives that process a command; the command help has a list
//
// SIGTERM or SIGINT drains the server. A second signal ends it.

import ActorSockets
import Glibc

/// Serves until `drain`, a handover or a signal has ended the service.
func run(_ service: Service, controlPath: String, after predecessor: ControlClient? = nil) async throws {
  let signals = try ProcessSignals([.terminate, .interrupt])
  let report = try await withThrowingTaskGroup(of: ServeReport?.self) { group in
    group.addTask { try await service.serve() }
    if let predecessor { await predecessor.takeOver() }
    let control = try ControlServer(for: service, at: controlPath)
    group.addTask {
      try await control.serve()
      return nil
    }
    group.addTask {
      var isFirst = true
      for await _ in signals {
        await service.drain(within: isFirst ? control.limits.drain : .zero)
        isFirst = false
      }
      return nil
    }
    print("process \(getpid()) serves \(service.listener.localAddresses[0]), control at \(controlPath)")
    fflush(nil)
    // The control socket exists as long as the service, or shorter.
    while let result = try await group.next() {
      if let report = result {
        group.cancelAll()
        return report
      }
    }
    return ServeReport()
  }
  print("process \(getpid()) ends after \(report.accepted) connections, \(report.aborted) of them aborted")
}

let arguments = CommandLine.arguments
do {
  switch (arguments.dropFirst().first, arguments.count) {
  case ("serve", 4):
    guard case .host(let host, let port) = try Endpoint(parsing: arguments[2]) else {
      throw ControlError("\(arguments[2]) is not HOST:PORT")
    }
    try await run(Service(.listening(on: host, port: port), log: Log()), controlPath: arguments[3])
  case ("take-over", 3):
    let predecessor = try await ControlClient(path: arguments[2])
    let service = try Service(await predecessor.requestSocket(), log: Log())
    try await run(service, controlPath: arguments[2], after: predecessor)
  case ("ask", 4...):
    let client = try await ControlClient(path: arguments[2])
    for line in try await client.ask(arguments[3...].joined(separator: " ")) { print(line) }
    await client.close()
  default:
    print("usage: ControlSocket serve HOST:PORT PATH | take-over PATH | ask PATH COMMAND")
    exit(2)
  }
} catch {
  print(error)
  exit(1)
}
