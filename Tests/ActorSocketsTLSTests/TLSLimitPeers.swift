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

  private static func identity(bytes: Int) throws -> TLSIdentity {
    let folder = try CertificateFolder()
    let authority = Authority(in: folder)
    var length = bytes - 1_000
    // The text gets the bytes that the rest of the certificate leaves. A serial number may be shorter than the one before.
    for _ in 0..<20 {
      let text = String(repeating: "a", count: length)
      try authority.makeRoot("big", key: "rsa:2048", extensions: "1.2.3.4.5=ASN1:UTF8String:\(text)")
      let identity = try TLSIdentity(certificateFile: folder("big.pem"), keyFile: folder("big.key"))
      let size = identity.certificate.der.count
      if size == bytes { return identity }
      length += bytes - size
    }
    throw Overdue(description: "no certificate has \(bytes) bytes")
  }

  /// A certificate that signs itself, whose name has exactly this many bytes, at least 256.
  static func certificate(nameBytes: Int) throws -> TLSCertificate {
    let key = try Identities.client.get().key
    // A part has 11 bytes besides its text, and the name has a header of 4 bytes.
    let parts = (nameBytes - 16) / 61
    let lengths = [Int](repeating: 50, count: parts) + [nameBytes - 4 - 61 * parts - 11]
    // SAFETY: the certificate gets an owner at once, and the name is freed here after it was copied.
    let certificate = try unsafe Certificate(owning: X509_new())
    let pointer = unsafe certificate.pointer
    let name = unsafe X509_NAME_new()
    defer { unsafe X509_NAME_free(name) }
    for length in lengths {
      let text = [UInt8](repeating: UInt8(ascii: "x"), count: length)
      unsafe X509_NAME_add_entry_by_NID(name, NID_organizationName, MBSTRING_ASC, text, Int32(text.count), -1, 0)
    }
    guard unsafe Int(i2d_X509_NAME(name, nil)) == nameBytes else {
      throw Overdue(description: "the name has another size")
    }
    unsafe X509_set_version(pointer, 2)
    unsafe ASN1_INTEGER_set(X509_get_serialNumber(pointer), 1)
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
    let ends = try TwoEnds(client: Made.client(), server: server)
    let errors = ends.handshake()
    if let error = errors.server ?? errors.client { throw error }
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

  static func updateKey(_ ends: TwoEnds) {
    // SAFETY: the connection lives as long as its end.
    unsafe SSL_key_update(ends.client.ssl, SSL_KEY_UPDATE_REQUESTED)
    unsafe SSL_do_handshake(ends.client.ssl)
  }

  /// A session that no connection has made.
  static func session() throws -> OpenSSLObject {
    // SAFETY: the session gets an owner at once, which frees it.
    try unsafe OpenSSLObject(SSL_SESSION_new()) { unsafe SSL_SESSION_free($0) }
  }

  /// Makes a connection that ends cleanly, so that its session can be resumed.
  static func connect(_ client: TLSContext) throws {
    let ends = try TwoEnds(client: client, server: Made.server())
    let errors = ends.handshake()
    if let error = errors.client ?? errors.server { throw error }
  }

  /// Calls a body with the ring buffers of a new connection.
  static func withRings(_ body: (inout BIOPair) -> Bool) throws -> Bool {
    let state = TLSHandshakeState(try Contexts.client(), .client(serverName: "server.test"))
    // SAFETY: the connection is freed here, with its half of the pair.
    let ssl = try unsafe state.context.makeSSL(for: state)
    defer { unsafe SSL_free(ssl) }
    var rings = try BIOPair()
    unsafe rings.attach(to: ssl)
    return body(&rings)
  }
}
