import COpenSSL
import Testing

@Suite struct OpenSSLTests {
  @Test func `the library is the one that the headers are of`() {
    #expect(OpenSSL_version_num() >> 28 == 3)
  }
}
