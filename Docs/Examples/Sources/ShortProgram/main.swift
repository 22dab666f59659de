// Runs one of the short programs.

import ActorSocketsTLS
import ByteText
import Foundation
import ShortPrograms

let usage = """
  usage: ShortProgram NAME …
    banners HOST[:PORT]…                       the versions of SSH servers
    http HOST:PORT PATH…                       pages of a server
    syslog [ADDRESS]:PORT                      prints what arrives over UDP and TCP
    ntp HOST:PORT…                             how much the clock of this machine is off
    memcached HOST:PORT get KEY | set KEY VALUE | delete KEY
    forward [ADDRESS]:PORT HOST:PORT           forwards connections
    game [ADDRESS]:PORT                        a game over UDP
    chat [ADDRESS]:PORT                        a chat
    mdns NAME [PORT]                           answers questions for NAME.local
    send-files [ADDRESS]:PORT FOLDER           sends the files of a folder
    receive-file HOST:PORT NAME PATH           receives a file, or the rest of it
    jobs [ADDRESS]:PORT CERTIFICATE KEY        hands jobs to workers
    work HOST:PORT CERTIFICATE                 works: turns letters into capitals
    submit HOST:PORT CERTIFICATE JOB           submits a job
  """

struct Usage: Error, CustomStringConvertible { var description: String { usage } }

/// The words behind the name of a program.
struct Words {
  let all: [String]

  subscript(_ index: Int) -> String {
    get throws { if all.indices.contains(index) { all[index] } else { throw Usage() } }
  }

  func endpoint(_ index: Int) throws -> Endpoint { try Endpoint(parsing: self[index]) }
  func endpoints() throws -> [Endpoint] { try all.map { try Endpoint(parsing: $0) } }

  func trusting(_ index: Int) throws -> TLSContext {
    try TLSContext(TLSConfiguration(trustRoots: [.file(self[index])]))
  }
}

/// Runs a client. Returns `false` if no client has this name.
func runClient(_ name: ByteText, _ words: Words) async throws -> Bool {
  switch name {
  case "banners":
    await BannerGrabber().run(try words.all.map { try Endpoint(parsing: $0, defaultPort: 22) }) { finding in
      switch finding.banner {
      case .success(let banner): print(finding.host, banner)
      case .failure(let error): print(finding.host, "–", error)
      }
    }
  case "http":
    let client = HTTPClient(try words.endpoint(0))
    for path in words.all.dropFirst() {
      let response = try await client.get(path)
      print(response.status, ByteText(response.body))
    }
    await client.close()
  case "ntp":
    let (offset, samples) = try await NTPClient().run(words.endpoints())
    for sample in samples { print(sample.server, sample.offset, "after", sample.delay) }
    print(offset)
  case "memcached":
    let client = MemcachedClient(try words.endpoint(0))
    switch ByteText(try words[1]) {
    case "get": print(try await client.get(words[2]).map { "\(ByteText($0))" } ?? "there is no such key")
    case "set": try await client.set(words[2], to: Array(words[3].utf8))
    case "delete": print(try await client.delete(words[2]))
    default: throw Usage()
    }
    await client.close()
  case "receive-file": print(try await FileReceiver(words.endpoint(0)).run(words[1], to: words[2]), "bytes")
  case "work": try await JobWorker(words.endpoint(0), tls: words.trusting(1)).run { $0.uppercased() }
  case "submit": print(try await JobClient(words.endpoint(0), tls: words.trusting(1)).run(words[2]))
  default: return false
  }
  return true
}

/// Runs a server until a signal.
func runServer(_ name: ByteText, _ words: Words) async throws {
  switch name {
  case "syslog":
    let receiver = SyslogReceiver { message in
      // A terminal would act on control characters of a peer, so its text is quoted.
      print(
        message.sender?.description ?? "", message.facility, message.severity, AddressError.quote("\(message.text)"))
      fflush(nil)
    }
    let endpoint = try words.endpoint(0)
    _ = try await receiver.run(UDPEndpoint.bind(to: endpoint), TCPListener.bind(to: endpoint))
  case "forward": print(try await PortForwarder(to: words.endpoint(1)).run(PortForwarder.bind(to: words.endpoint(0))))
  case "game": try await GameServer().run(UDPEndpoint.bind(to: words.endpoint(0)))
  case "chat": print(try await ChatServer().run(ChatServer.bind(to: words.endpoint(0))))
  case "mdns":
    let port = words.all.count > 1 ? UInt16(try words[1]) : 5353
    guard let port else { throw Usage() }
    try await MDNSResponder(words[0]).run(MDNSResponder.bind(port: port))
  case "send-files": print(try await FileSender(words[1]).run(TCPListener.bind(to: words.endpoint(0))))
  case "jobs":
    let identity = try TLSIdentity(certificateFile: words[1], keyFile: words[2])
    let context = try TLSContext(TLSConfiguration(identity: identity))
    print(try await JobServer().run(TCPListener.bind(to: words.endpoint(0)), tls: context))
  default: throw Usage()
  }
}

extension ByteText {
  static func ~= (pattern: String, text: ByteText) -> Bool { text.equals(pattern) }
}

do {
  let name = ByteText(CommandLine.arguments.dropFirst().first ?? "")
  let words = Words(all: Array(CommandLine.arguments.dropFirst(2)))
  if try await !runClient(name, words) { try await runServer(name, words) }
} catch {
  FileHandle.standardError.write(Data("\(error)\n".utf8))
  exit(1)
}
