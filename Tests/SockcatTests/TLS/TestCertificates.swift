import Foundation
import TestSupport

/// Certificates and keys in files, as programs take them, made with OpenSSL's own tool for each run of the tests.
struct TestCertificates: Sendable {
  let folder: URL

  /// The authority that has signed the others.
  var authority: String { path("ca.pem") }
  /// An authority that has signed none.
  var stranger: String { path("stranger.pem") }

  /// For a server on this machine.
  var server: [String] { ["--cert", path("server.pem"), "--key", path("server.key")] }
  /// For a client; the key is in the same file.
  var client: [String] { ["--cert", path("client-and-key.pem")] }

  func path(_ name: String) -> String { folder.appendingPathComponent(name).path }

  /// The same for all tests of a process.
  static var shared: TestCertificates {
    get async throws { try await making.value }
  }

  private static let making = Task {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("sockcat-certificates-\(getpid())")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    atexit { removeCertificates() }
    let certificates = TestCertificates(folder: folder)
    try await certificates.make()
    return certificates
  }

  private func make() async throws {
    try await makeAuthority("ca")
    try await makeAuthority("stranger")
    try await sign(
      "server", "subjectAltName=DNS:localhost,DNS:unix.test,IP:127.0.0.1,IP:::1\nextendedKeyUsage=serverAuth")
    try await sign("client", "extendedKeyUsage=clientAuth")
    let both = try ["client.pem", "client.key"].map { try Data(contentsOf: folder.appendingPathComponent($0)) }
    try Data(both.joined()).write(to: folder.appendingPathComponent("client-and-key.pem"))
  }

  private static let newKey = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes"]

  private func makeAuthority(_ name: String) async throws {
    let files = ["-keyout", path("\(name).key"), "-out", path("\(name).pem")]
    try await openssl(["req", "-x509", "-subj", "/CN=\(name)", "-days", "2"] + Self.newKey + files)
  }

  private func sign(_ name: String, _ extensions: String) async throws {
    let files = ["-keyout", path("\(name).key"), "-out", path("\(name).csr")]
    try await openssl(["req", "-subj", "/CN=\(name)"] + Self.newKey + files)
    try Data(extensions.utf8).write(to: folder.appendingPathComponent("\(name).ext"))
    let authority = ["-CA", path("ca.pem"), "-CAkey", path("ca.key"), "-CAcreateserial"]
    let input = ["-in", path("\(name).csr"), "-extfile", path("\(name).ext")]
    try await openssl(["x509", "-req", "-out", path("\(name).pem"), "-days", "2"] + authority + input)
  }

  private func openssl(_ arguments: [String]) async throws {
    let program = try await Program(.openssl, arguments)
    let status = try await program.exitStatus()
    if status != 0 { throw Program.Disappointment(description: await program.errors.whole) }
  }
}

private func removeCertificates() {
  try? FileManager.default.removeItem(
    at: FileManager.default.temporaryDirectory.appendingPathComponent("sockcat-certificates-\(getpid())"))
}
