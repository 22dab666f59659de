// Runs one of the short programs.

import ActorSocketsTLS
import ByteText
import Foundation
import ShortPrograms

let usage = """
  usage: ShortProgram NAME …
    banners HOST:PORT…                         the versions of SSH servers
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

func run(_ name: String, _ words: [String]) async throws {
  func word(_ index: Int) throws -> String { if words.indices.contains(index) { words[index] } else { throw Usage() } }
  func endpoint(_ index: Int) throws -> Endpoint { try Endpoint(parsing: word(index)) }
  func trusting(_ index: Int) throws -> TLSContext {
    try TLSContext(TLSConfiguration(trustRoots: [.file(word(index))]))
  }

  switch ByteText(name) {
  case "banners":
    await BannerGrabber().run(try words.map { try Endpoint(parsing: $0) }) { finding in
      switch finding.banner {
      case .success(let banner): print(finding.host, banner)
      case .failure(let error): print(finding.host, "–", error)
      }
    }
  case "http":
    let client = HTTPClient(try endpoint(0))
    for path in words.dropFirst() {
      let response = try await client.get(path)
      print(response.status, ByteText(response.body))
    }
    await client.close()
  case "syslog":
    let receiver = SyslogReceiver { message in
      // What a peer has sent is quoted, because a terminal acts on control characters.
      print(
        message.sender?.description ?? "", message.facility, message.severity, AddressError.quote("\(message.text)"))
      fflush(nil)
    }
    let endpoint = try endpoint(0)
    _ = try await receiver.run(UDPEndpoint.bind(to: endpoint), TCPListener.bind(to: endpoint))
  case "ntp":
    let (offset, samples) = try await NTPClient().run(words.map { try Endpoint(parsing: $0) })
    for sample in samples { print(sample.server, sample.offset, "after", sample.delay) }
    print(offset)
  case "memcached":
    let client = MemcachedClient(try endpoint(0))
    switch ByteText(try word(1)) {
    case "get": print(try await client.get(word(2)).map { "\(ByteText($0))" } ?? "there is no such key")
    case "set": try await client.set(word(2), to: Array(word(3).utf8))
    case "delete": print(try await client.delete(word(2)))
    default: throw Usage()
    }
    await client.close()
  case "forward": print(try await PortForwarder(to: endpoint(1)).run(PortForwarder.bind(to: endpoint(0))))
  case "game": try await GameServer().run(UDPEndpoint.bind(to: endpoint(0)))
  case "chat": print(try await ChatServer().run(ChatServer.bind(to: endpoint(0))))
  case "mdns":
    let port = words.count > 1 ? UInt16(words[1]) : 5353
    guard let port else { throw Usage() }
    try await MDNSResponder(word(0)).run(MDNSResponder.bind(port: port))
  case "send-files": print(try await FileSender(word(1)).run(TCPListener.bind(to: endpoint(0))))
  case "receive-file": print(try await FileReceiver(endpoint(0)).run(word(1), to: word(2)), "bytes")
  case "jobs":
    let identity = try TLSIdentity(certificateFile: word(1), keyFile: word(2))
    let context = try TLSContext(TLSConfiguration(identity: identity))
    print(try await JobServer().run(TCPListener.bind(to: endpoint(0)), tls: context))
  case "work": try await JobWorker(endpoint(0), tls: trusting(1)).run { $0.uppercased() }
  case "submit": print(try await JobClient(endpoint(0), tls: trusting(1)).run(word(2)))
  default: throw Usage()
  }
}

extension ByteText {
  static func ~= (pattern: String, text: ByteText) -> Bool { text.equals(pattern) }
}

do {
  try await run(CommandLine.arguments.dropFirst().first ?? "", Array(CommandLine.arguments.dropFirst(2)))
} catch {
  FileHandle.standardError.write(Data("\(error)\n".utf8))
  exit(1)
}
