import COpenSSL
import TestSupport
import Testing

@testable import ActorSocketsTLS

/// Revocation lists that are cut off, changed at random from seeds, or no lists at all.
///
/// Each is refused as a file, or a certificate is verified with it; nothing traps, and a list that was changed never
/// makes a revoked certificate good. How many there are: `ACTORSOCKETS_ROUNDS`.
@Suite struct RevocationFuzzTests {
  private static let rounds = wantedRounds ?? 10_000

  @Test(arguments: [true, false])
  func `Changed lists are refused, or do not make a revoked certificate good`(isPEM: Bool) async throws {
    let files = try RevocationFiles.shared
    let list = try files.folder.read(isPEM ? "middle-leaf.crl" : "middle-leaf.crl.der")
    let chain = try Certificate.read(files.folder.read("leaf.chain"), from: .bytes)
    let verifier = try TrustStore(TLSConfiguration(trustRoots: [.file(files.folder("root.pem"))]))
    try await within("all are tried", seconds: 120 + Self.rounds / 100) {
      var mutator = Mutator(random: SeededRandom(seed: isPEM ? 1 : 2))
      var elements = try isPEM ? nil : DERMutator(list, seed: 2)
      var (refused, used) = (0, 0)
      for round in 0..<Self.rounds / 2 {
        // All forms from the first rounds on: a list that is cut off is always refused.
        var bytes = Array(list.prefix(round / 2))
        if !round.isMultiple(of: 2) || bytes.count == list.count {
          bytes = round % 4 == 3 ? elements?.next() ?? mutator.changed(list) : mutator.changed(list)
        }
        guard let lists = try? RevocationLists(.crls([.bytes(bytes)], scope: .leaf)) else {
          refused += 1
          continue
        }
        used += 1
        let code = try verdict(on: chain, verifier, lists)
        // A change outside of what is signed leaves it as it was.
        #expect(code != nil, "round \(round)")
      }
      #expect(refused > 0 && used > 0 && OpenSSLErrors.take().entries.isEmpty)
    }
  }

  /// Verifies a chain as a handshake does.
  private func verdict(
    on chain: [Certificate], _ trust: TrustStore, _ lists: RevocationLists
  ) throws -> TLSError.Code? {
    // SAFETY: the context is freed here, and what it refers to lives until then.
    guard let store = unsafe X509_STORE_CTX_new() else { throw CertificateFolder.Failure(description: "no memory") }
    defer { unsafe X509_STORE_CTX_free(store) }
    let others = try CertificateStack(chain.dropFirst())
    return withExtendedLifetime((others, chain)) {
      unsafe X509_STORE_CTX_init(store, trust.store.pointer, chain[0].pointer, others.pointer)
      let isGood = unsafe lists.withLists(on: store) { unsafe X509_verify_cert(store) == 1 }
      OpenSSLErrors.clear()
      return isGood ? nil : TLSError.Code(verification: unsafe X509_STORE_CTX_get_error(store))
    }
  }
}
