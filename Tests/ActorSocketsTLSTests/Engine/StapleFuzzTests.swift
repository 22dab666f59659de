import TestSupport
import Testing

@testable import ActorSocketsTLS

/// Stapled responses that are cut off, changed at random from seeds, or no responses at all.
///
/// Nothing traps, and no change makes a revoked certificate good. How many there are: `ACTORSOCKETS_ROUNDS`.
@Suite struct StapleFuzzTests {
  // Fewer do not have each outcome.
  private static let rounds = max(wantedRounds ?? 10_000, 1_000)

  @Test(arguments: ["middle", "responder"])
  func `A changed response never makes a revoked certificate good`(signer: String) async throws {
    let files = try StapleFiles.shared
    let response = try files.response("leaf", "revoked", by: signer)
    let chain = try Certificate.read(files.folder.read("leaf.chain"), from: .bytes)
    try await within("all are tried", seconds: 120 + Self.rounds / 100) {
      var mutator = Mutator(random: SeededRandom(seed: 1))
      var elements = try DERMutator(response, seed: 1)
      var codes: [TLSError.Code: Int] = [:]
      for round in 0..<Self.rounds {
        var bytes = Array(response.prefix(round))
        if round > response.count {
          bytes = round.isMultiple(of: 2) ? mutator.changed(response) : elements.next()
        }
        do throws(TLSError) {
          try Staple(bytes).verify(for: chain[0], by: chain[1])
          Issue.record("round \(round): a revoked certificate is good")
        } catch {
          codes[error.code, default: 0] += 1
        }
      }
      // A change outside of what is signed leaves it as it was.
      #expect(Set(codes.keys) == [.stapleInvalid, .revoked] && OpenSSLErrors.take().entries.isEmpty, "\(codes)")
    }
  }

  @Test func `Bytes that are no response are refused`() {
    var random = SeededRandom(seed: 7)
    for round in 0..<Self.rounds {
      var bytes = (0..<Int.random(in: 0..<200, using: &random)).map { _ in UInt8.random(in: 0...255, using: &random) }
      if bytes.count > 2 { (bytes[0], bytes[1]) = (0x30, UInt8(bytes.count - 2 & 0x7f)) }
      do throws(TLSError) {
        _ = try Staple(bytes)
        Issue.record("round \(round): it was read")
      } catch {
        if error.code != .stapleInvalid { Issue.record("round \(round): \(error)") }
      }
    }
  }
}
