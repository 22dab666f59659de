import ActorSocketsTLS
import Foundation
import TestSupport

struct SClient {
  /// Starts it. Its input is what it sends. With `-quiet`, its output is what it got.
  static func start(
    _ server: OurServer, _ version: TLSVersion? = nil, _ options: [String] = ["-quiet"], input: Program.Input = .pipe,
    outputTo file: URL? = nil
  ) async throws -> Program {
    let trust = [
      "-CAfile", try PeerFiles.shared("root.pem"), "-verify_return_error", "-verify_hostname", "server.test",
    ]
    return try await Program(
      .openssl,
      ["s_client", "-connect", server.address, "-servername", "server.test"] + trust + SServer.flags(version) + options,
      input: input, outputTo: file)
  }
}
