import ActorSocketsTLS
import COpenSSL
import Glibc
import TestSupport
import Testing

@Suite struct OpenSSLTests {
  @Test func `the library is the one that the headers are of`() {
    #expect(OpenSSL_version_num() >> 28 == 3)
  }

  @Test(arguments: FirstCall.allCases)
  func `at the exit of a process nothing is taken from those who still use it`(first: FirstCall) async {
    await #expect(processExitsWith: .exitCode(EXIT_SUCCESS)) { [first] in
      try first.make()
      // Of a cleanup only what it calls tells.
      #expect(OPENSSL_atexit { _exit(EXIT_FAILURE) } == 1)
      exit(EXIT_SUCCESS)
    }
  }
}

/// What a program may do with TLS before anything else.
enum FirstCall: String, CaseIterable, Codable {
  case context, certificate, certificateText, madeIdentity, encryptedFile

  func make() throws {
    switch self {
    case .context: #expect(throws: TLSError.self) { try TLSContext(TLSConfiguration(trustRoots: [])) }
    case .certificate: #expect(throws: TLSError.self) { try TLSCertificate(der: [48]) }
    case .certificateText:
      #expect(throws: TLSError.self) { try TLSCertificate.all(pem: Array("-----BEGIN CERTIFICATE-----".utf8)) }
    case .madeIdentity: _ = try TLSIdentity.selfSigned(for: ["localhost"])
    case .encryptedFile: #expect(throws: TLSError.self) { try TLSIdentity(pkcs12: [48]) }
    }
  }
}
