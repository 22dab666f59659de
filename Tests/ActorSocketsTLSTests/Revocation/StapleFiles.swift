import COpenSSL
import Foundation
import TestSupport
import Testing

@testable import ActorSocketsTLS

/// Responses of OCSP about the certificates of `RevocationFiles`, and others that its authorities sign.
struct StapleFiles {
  let files: RevocationFiles
  var folder: CertificateFolder { files.folder }

  private static let made = Result { try StapleFiles() }
  static var shared: StapleFiles { get throws { try made.get() } }

  private init() throws {
    files = try RevocationFiles.shared
    let authority = files.authority
    try authority.issue("responder", by: "middle", extensions: "extendedKeyUsage=OCSPSigning")
    try authority.issue("foreign", by: "stranger", extensions: "extendedKeyUsage=OCSPSigning")
    try authority.issue(
      "must", by: "middle", extensions: "subjectAltName=DNS:\(RevocationFiles.name)\ntlsfeature=status_request")
    try folder.write("must.chain", folder.read("must.pem") + folder.read("middle.pem"))
    try authority.writeIndex("good.index", good: ["leaf", "other", "must"])
    try authority.writeIndex("revoked.index", revoking: ["leaf"])
    try authority.writeIndex("unknown.index", good: ["other"])
    for name in ["leaf", "other", "must"] {
      try folder.openssl("ocsp -issuer middle.pem -cert \(name).pem -no_nonce -reqout \(name).request")
    }
    try folder.openssl("ocsp -issuer middle.pem -sha256 -cert leaf.pem -no_nonce -reqout sha256.request")
  }

  func response(
    _ request: String = "leaf", _ index: String = "good", by signer: String = "middle", _ options: [String] = []
  ) throws -> [UInt8] {
    // Other tests may make the same one at the same time.
    let file = "\(UUID().uuidString).response"
    let words = [
      "ocsp", "-index", "\(index).index", "-CA", "middle.pem", "-rsigner", "\(signer).pem", "-rkey", "\(signer).key",
      "-reqin", "\(request).request", "-respout", file, "-ndays", "7",
    ]
    let (status, output) = try folder.run(words + options)
    if status != 0 { throw CertificateFolder.Failure(description: output) }
    return try folder.read(file)
  }

  /// Makes a good response about `leaf` with these times, in seconds from now.
  func response(from start: Int, to end: Int?) throws -> [UInt8] {
    let certificate = try Certificate.read(folder.read("leaf.pem"), from: .bytes)[0]
    let issuer = try Certificate.read(folder.read("middle.pem"), from: .bytes)[0]
    let key = try PrivateKey(folder.read("middle.key"), from: .bytes, nil)
    // SAFETY: all objects are freed here, or belong to those that are; certificates and key live until the end.
    return withExtendedLifetime((certificate, issuer, key)) {
      let basic = unsafe OCSP_BASICRESP_new()
      defer { unsafe OCSP_BASICRESP_free(basic) }
      let name = unsafe OCSP_cert_to_id(EVP_sha1(), certificate.pointer, issuer.pointer)
      defer { unsafe OCSP_CERTID_free(name) }
      let thisUpdate = unsafe ASN1_GENERALIZEDTIME_set(nil, time(nil) + start)
      let nextUpdate = unsafe end.map { unsafe ASN1_GENERALIZEDTIME_set(nil, time(nil) + $0) } ?? nil
      defer {
        unsafe ASN1_GENERALIZEDTIME_free(thisUpdate)
        unsafe ASN1_GENERALIZEDTIME_free(nextUpdate)
      }
      unsafe OCSP_basic_add1_status(basic, name, V_OCSP_CERTSTATUS_GOOD, 0, nil, thisUpdate, nextUpdate)
      unsafe OCSP_basic_sign(basic, issuer.pointer, key.pointer, EVP_sha256(), nil, 0)
      let response = unsafe OCSP_response_create(OCSP_RESPONSE_STATUS_SUCCESSFUL, basic)
      defer { unsafe OCSP_RESPONSE_free(response) }
      return unsafe encoded { unsafe i2d_OCSP_RESPONSE(response, $0) }
    }
  }

  /// A response that says nothing but that it is not the time.
  func tryLater() -> [UInt8] { [0x30, 0x03, 0x0a, 0x01, 0x03] }

  /// A server on bare OpenSSL that staples whatever it is given.
  func server(_ staple: [UInt8]?, showing name: String = "leaf", alone: Bool = false) throws -> ChainServer {
    try ChainServer(chain: folder(alone ? "\(name).pem" : "\(name).chain"), key: folder("\(name).key"), staple: staple)
  }

  func client(
    _ version: TLSVersion? = nil, requiring: Bool = false, _ change: (inout TLSConfiguration) throws -> Void = { _ in }
  ) throws -> TLSContext {
    try .made(.init(trustRoots: [.file(folder("root.pem"))]), version) {
      $0.requiresStaple = requiring
      try change(&$0)
    }
  }
}
