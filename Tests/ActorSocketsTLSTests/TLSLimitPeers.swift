import COpenSSL
import Foundation
import TestSupport

@testable import ActorSocketsTLS

/// What the boundaries of TLS need: certificates of exact sizes, and parts of connections.
enum TLSLimitPeers {
  // MARK: Certificates

  /// A client that shows a certificate of exactly this many bytes, and a server that trusts it.
  static func contexts(
    clientCertificate bytes: Int, _ version: TLSVersion
  ) throws -> (client: TLSContext, server: TLSContext) {
    try Made.contexts(withClient: identity(bytes: bytes), version)
  }

  /// A certificate that has this text, and signs itself.
  static func identity(text: String, key: String = "ec -pkeyopt ec_paramgen_curve:P-256") throws -> TLSIdentity {
    let folder = try CertificateFolder()
    try Authority(in: folder).makeRoot("big", key: key, extensions: "1.2.3.4.5=ASN1:UTF8String:\(text)")
    return try TLSIdentity(certificateFile: folder("big.pem"), keyFile: folder("big.key"))
  }

  private static func identity(bytes: Int) throws -> TLSIdentity {
    var length = bytes - 1_000
    // The text gets the bytes that the rest of the certificate leaves. A serial number may be shorter than the one before.
    for _ in 0..<20 {
      let identity = try identity(text: String(repeating: "a", count: length), key: "rsa:2048")
      let size = identity.certificate.der.count
      if size == bytes { return identity }
      length += bytes - size
    }
    throw Overdue(description: "no certificate has \(bytes) bytes")
  }

  /// A certificate that signs itself, whose name has exactly this many bytes, at least 256.
  static func certificate(nameBytes: Int) throws -> TLSCertificate {
    // A part has 11 bytes besides its text, and the name has a header of 4 bytes.
    let parts = (nameBytes - 16) / 61
    let lengths = [Int](repeating: 50, count: parts) + [nameBytes - 4 - 61 * parts - 11]
    return try certificate(named: lengths.map { String(repeating: "x", count: $0) }, number: 0, nameBytes: nameBytes)
  }

  /// A certificate that signs itself, whose name has at least this many bytes and this number.
  static func certificate(bytes: Int, number: Int) throws -> TLSCertificate {
    let parts = (0...(bytes / 70)).map { "\(number).\($0).\(String(repeating: "x", count: min(50, bytes)))" }
    return try certificate(named: parts, number: number)
  }

  private static func certificate(named parts: [String], number: Int, nameBytes: Int? = nil) throws -> TLSCertificate {
    let key = try Identities.client.get().key
    // SAFETY: the certificate gets an owner at once, and the name is freed here after it was copied.
    let certificate = try unsafe Certificate(owning: X509_new())
    let pointer = unsafe certificate.pointer
    let name = unsafe X509_NAME_new()
    defer { unsafe X509_NAME_free(name) }
    for text in parts.map({ Array($0.utf8) }) {
      unsafe X509_NAME_add_entry_by_NID(name, NID_organizationName, MBSTRING_ASC, text, Int32(text.count), -1, 0)
    }
    let size = unsafe Int(i2d_X509_NAME(name, nil))
    if let nameBytes, size != nameBytes { throw Overdue(description: "the name has another size") }
    unsafe X509_set_version(pointer, 2)
    unsafe ASN1_INTEGER_set(X509_get_serialNumber(pointer), number + 1)
    unsafe X509_gmtime_adj(X509_getm_notBefore(pointer), -3_600)
    unsafe X509_gmtime_adj(X509_getm_notAfter(pointer), 3_600)
    unsafe X509_set_subject_name(pointer, name)
    unsafe X509_set_issuer_name(pointer, name)
    unsafe X509_set_pubkey(pointer, key.pointer)
    unsafe X509_sign(pointer, key.pointer, EVP_sha256())
    return TLSCertificate(certificate)
  }

  /// The number of authorities that a server names that trusts these.
  static func namedRoots(_ roots: [TLSCertificate]) throws -> Int {
    let server = try Made.server {
      $0.trustRoots = [.certificates(roots)]
      $0.clientCertificates = .optional
    }
    let ends = try TwoEnds.up(client: Made.client(), server: server)
    // SAFETY: the list belongs to the connection.
    return max(0, Int(unsafe OPENSSL_sk_num(SSL_get0_peer_CA_list(ends.client.ssl))))
  }

  // MARK: Files

  /// A file of zeros, which goes with its last reference.
  final class ZeroFile {
    private let folder: CertificateFolder
    var path: String { folder("zeros") }

    init(_ count: Int) throws {
      folder = try CertificateFolder()
      try folder.write("zeros", [] as [UInt8])
      let handle = try FileHandle(forWritingTo: folder.url.appending(path: "zeros"))
      try handle.truncate(atOffset: UInt64(count))
      try handle.close()
    }
  }

  // MARK: Connections

  /// A session that no connection has made.
  static func session() throws -> OpenSSLObject {
    // SAFETY: the session gets an owner at once, which frees it.
    try unsafe OpenSSLObject(SSL_SESSION_new()) { unsafe SSL_SESSION_free($0) }
  }

  /// Makes a connection that ends cleanly, so that its session can be resumed.
  static func connect(_ client: TLSContext) throws { _ = try TwoEnds.up(client: client, server: Made.server()) }
}
