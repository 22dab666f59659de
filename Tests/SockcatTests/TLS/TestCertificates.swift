import Foundation
import TestSupport

/// Certificates and keys in files, as programs take them, made once for a run of the tests.
struct TestCertificates: Sendable {
  private let folder: CertificateFolder

  /// The authority that has signed the others.
  var authority: String { path("ca.pem") }
  /// An authority that has signed no certificate here.
  var stranger: String { path("stranger.pem") }
  var server: [String] { ["--cert", path("server.pem"), "--key", path("server.key")] }
  /// The key is in the same file.
  var client: [String] { ["--cert", path("client-and-key.pem")] }

  func path(_ name: String) -> String { folder(name) }

  private static let made = Result { try TestCertificates() }
  static var shared: TestCertificates { get throws { try made.get() } }

  private init() throws {
    folder = try CertificateFolder(isShared: true)
    let authority = try Authority(in: folder, "ca")
    try authority.makeRoot("stranger")
    let names = "subjectAltName=DNS:localhost,DNS:unix.test,IP:127.0.0.1,IP:::1"
    try authority.issue("server", by: "ca", extensions: "\(names)\nextendedKeyUsage=serverAuth")
    try authority.issue("client", by: "ca", extensions: "extendedKeyUsage=clientAuth")
    try folder.write("client-and-key.pem", folder.read("client.pem") + folder.read("client.key"))
  }
}

/// Whether sockcat encrypts, as a server and as the client of such a server.
enum Encryption: CaseIterable {
  case plain, tls

  func listening(
    _ options: [String], at endpoint: String = "127.0.0.1:0", input: Program.Input = .nothing
  ) async throws -> (Program, String) {
    let own = self == .tls ? ["--tls"] + (try TestCertificates.shared.server) : []
    return try await Program.listening([endpoint] + own + options, input: input)
  }

  func connecting(
    _ address: String, _ options: [String] = [], input: Program.Input = .pipe, outputTo file: URL? = nil
  ) async throws -> Program {
    // The path of a unix socket is no name.
    let name = address.hasPrefix("unix:") ? ["--server-name", "unix.test"] : []
    let own = self == .tls ? ["--tls", "--ca", try TestCertificates.shared.authority] + name : []
    return try await Program(.sockcat, ["connect", address] + own + options, input: input, outputTo: file)
  }
}
