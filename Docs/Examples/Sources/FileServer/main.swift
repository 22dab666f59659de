// Serves the files of a folder.
//
//   FileServer FOLDER [HOST:PORT]
//
// SIGTERM or SIGINT stops it: downloads may finish within 30 seconds. A second signal ends them.

import ActorSockets
import Glibc

let arguments = CommandLine.arguments
guard arguments.count == 2 || arguments.count == 3 else {
  print("usage: FileServer FOLDER [HOST:PORT]")
  exit(2)
}

do {
  var server = FileServer(site: try FileSite(root: arguments[1]))
  server.log = { client, request, response in
    let what = request.map { "\($0.method) \($0.path ?? "")" } ?? "-"
    print(client.map { "\($0)" } ?? "-", what, response.status.code)
  }
  let listener = try TCPListener.bind(to: Endpoint(parsing: arguments.count == 3 ? arguments[2] : "localhost:8080"))
  for address in listener.localAddresses { print("listening on \(address)") }
  fflush(nil)
  let report = try await listener.serve(
    .init(drain: .within(.seconds(30), idleReads: .endAll), stopOn: [.terminate, .interrupt])
  ) { [server] connection in
    try await server.serve(connection)
  }
  print("stopped after \(report.accepted) connections, \(report.aborted) of them aborted")
} catch {
  print(error)
  exit(1)
}
