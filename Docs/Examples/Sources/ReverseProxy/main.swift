// An HTTPS server in front of other servers.
//
//   ReverseProxy SETTINGS
//
// SIGHUP reads the certificates again. SIGTERM or SIGINT stops the proxy: requests that are under way have 30 seconds to finish. A second
// signal ends them.

import ActorSocketsTLS
import Glibc

guard CommandLine.arguments.count == 2 else {
  print("usage: ReverseProxy SETTINGS")
  exit(2)
}

do {
  let settings = try ProxySettings(file: CommandLine.arguments[1])
  let service = try ProxyService(settings) { line in
    print(line)
    fflush(nil)
  }
  let reloads = try ProcessSignals([.hangup])
  // The socket of the service manager stays open when this process ends, so the next process continues to accept on it.
  var listeners = try TCPListener.activated(configuration: service.listenerConfiguration)
  if listeners.isEmpty {
    listeners = [try .bind(to: settings.listen, configuration: service.listenerConfiguration)]
  }
  for address in listeners.flatMap(\.localAddresses) { service.proxy.log("listening on \(address)") }
  let report = try await service.run(on: listeners, reloads: reloads)
  print("stopped after \(report.accepted) connections, \(report.aborted) of them aborted")
} catch {
  print(error)
  exit(1)
}
