import ActorSocketsTLS
import Foundation
import TestSupport

/// `openssl s_client`, and a server of ours.
struct SClient {
  /// Starts it.
  ///
  /// - Parameters:
  ///   - server: Whom it talks to.
  ///   - version: The only one that it speaks.
  ///   - options: What it does differently.
  ///   - input: What it sends.
  ///   - file: Where its standard output goes to.
  /// - Returns: The program, whose input is what it sends. With `-quiet`, its output is what it got.
  /// - Throws: Why it does not start.
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
