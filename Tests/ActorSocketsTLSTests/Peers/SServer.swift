import ActorSockets
import ActorSocketsTLS
import Foundation
import TestSupport
import Testing

struct SServer: Sendable {
  let program: Program
  let endpoint: Endpoint

  init(_ options: [String], _ version: TLSVersion? = nil, key: KeyKind = .ecdsa, in folder: URL? = nil) async throws {
    let files = try PeerFiles.shared
    let certificate = ["-cert", files("\(key.rawValue).pem"), "-key", files("\(key.rawValue).key")]
    program = try await Program(
      .openssl, ["s_server", "-accept", "127.0.0.1:0"] + certificate + Self.flags(version) + options, input: .pipe,
      in: folder)
    let found = await program.output.wait { $0.contains(/ACCEPT 127.0.0.1:\d+/) }
    guard found, let match = await program.output.text.firstMatch(of: /ACCEPT 127.0.0.1:(\d+)/),
      let port = UInt16(match.1)
    else {
      throw Overdue(description: "s_server does not listen: \(await program.errors.text)")
    }
    endpoint = .host("127.0.0.1", port: port)
  }

  static func flags(_ version: TLSVersion?) -> [String] {
    switch version {
    case .v12: ["-tls1_2"]
    case .v13: ["-tls1_3"]
    default: []
    }
  }

  func connect(_ context: TLSContext, as name: String = "server.test") async throws -> TLSConnection {
    try await TLSConnection.connect(to: endpoint, context: context, serverName: name)
  }

  func stop() async { await program.kill(SIGTERM) }
}

extension ByteStream {
  nonisolated func exchangeLine() async throws {
    try await write(utf8: "stressed\n")
    #expect(try await read(until: .lf) == Array("desserts\n".utf8))
  }
}
