import ActorSockets
import Foundation
import TestSupport
import Testing

@testable import ActorSocketsTLS

extension Peers {
  /// Stapled responses and revocation lists, with `openssl s_server` and `openssl s_client` on the other side.
  @Suite(.needs(.openssl)) struct RevocationPeerTests {
    /// A response about the server's certificate of `PeerFiles`, in a file.
    private func response(_ state: String) throws -> String {
      let folder = try PeerFiles.shared.folder
      let authority = Authority(in: folder)
      // Other tests may make the same one at the same time.
      let name = UUID().uuidString
      let isGood = state == "good"
      try authority.writeIndex("\(name).index", good: isGood ? ["ecdsa"] : [], revoking: isGood ? [] : ["ecdsa"])
      try folder.openssl(
        "ocsp -index \(name).index -CA root.pem -rsigner root.pem -rkey root.key -issuer root.pem -cert ecdsa.pem "
          + "-no_nonce -reqout \(name).request")
      try folder.openssl(
        "ocsp -index \(name).index -CA root.pem -rsigner root.pem -rkey root.key -reqin \(name).request -ndays 7 "
          + "-respout \(name).response")
      return folder("\(name).response")
    }

    @Test(arguments: TLSVersion.both)
    func `A client verifies what s_server staples`(version: TLSVersion) async throws {
      let context = try PeerFiles.shared.client { $0.requiresStaple = true }
      let server = try await SServer(["-rev", "-status_file", response("good")], version)
      let connection = try await server.connect(context)
      try await connection.exchangeLine()
      await connection.close()
      await server.stop()
      let revoked = try await SServer(["-rev", "-status_file", response("revoked")], version)
      let error = await expectTLSError(.revoked) { _ = try await revoked.connect(context) }
      #expect(error.alert == "bad_certificate_status_response")
      await revoked.stop()
      let silent = try await SServer(["-rev"], version)
      await expectTLSError(.stapleMissing) { _ = try await silent.connect(context) }
      await silent.stop()
    }

    @Test(arguments: TLSVersion.both)
    func `s_client gets what the server staples`(version: TLSVersion) async throws {
      let files = try PeerFiles.shared
      let identity = try files.identity("ecdsa")
      let server = try OurServer(files.server(version) { $0.identity = identity })
      for (state, text) in [
        ("", "no response sent"), ("good", "Cert Status: good"), ("revoked", "Cert Status: revoked"),
      ] {
        if !state.isEmpty { try identity.replaceStaple(file: response(state)) }
        let (status, output) = try await onThread {
          try files.folder.run(
            ["s_client", "-connect", server.address, "-servername", "server.test", "-status", "-CAfile", "root.pem"])
        }
        #expect(status == 0 && output.contains(text), "\(output.prefix(2000))")
      }
      try await server.stop()
    }

    @Test(arguments: TLSVersion.both)
    func `A client refuses s_server by a list, and s_client a revoked server`(version: TLSVersion) async throws {
      let files = try PeerFiles.shared
      let authority = Authority(in: files.folder)
      try authority.makeRevocationList("root-empty", by: "root")
      try authority.makeRevocationList("root-ecdsa", by: "root", revoking: ["ecdsa"])
      let server = try await SServer(["-rev"], version)
      let context = try files.client { $0.revocation = .crls([.file(files("root-empty.crl"))]) }
      let connection = try await server.connect(context)
      try await connection.exchangeLine()
      await connection.close()
      try context.replaceRevocationLists(.crls([.file(files("root-ecdsa.crl.der"))], scope: .leaf))
      await expectTLSError(.revoked) { _ = try await server.connect(context) }
      await server.stop()
      let ours = try OurServer(files.server(version))
      let (status, output) = try await onThread {
        try files.folder.run(
          [
            "s_client", "-connect", ours.address, "-verify_return_error", "-CAfile", "root.pem", "-CRL",
            "root-ecdsa.crl",
            "-crl_check",
          ])
      }
      #expect(status != 0 && output.contains("certificate revoked"), "\(output.prefix(2000))")
      try await eventually("the server hears of it") { !ours.failures.all.isEmpty }
      #expect((ours.failures.all.first as? TLSError)?.alert == "certificate_revoked")
      try await ours.stop()
    }
  }
}
