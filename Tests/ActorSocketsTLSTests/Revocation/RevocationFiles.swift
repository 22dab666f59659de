import ActorSockets
import TestSupport
import Testing

@testable import ActorSocketsTLS

extension Authority {
  /// Makes the list of what an issuer has revoked, in the files `NAME.crl` (PEM) and `NAME.crl.der`.
  func makeRevocationList(
    _ name: String, by issuer: String, revoking revoked: [String] = [],
    dates: (from: String, to: String) = ("20200101000000Z", "20450101000000Z"),
    extensions: String = "authorityKeyIdentifier=keyid"
  ) throws {
    try folder.write(
      "\(name).cnf",
      """
      [ca]
      default_ca=it
      [it]
      database=\(name).index
      default_md=sha256
      crl_extensions=extensions
      [extensions]
      \(extensions)

      """)
    try writeIndex("\(name).index", revoking: revoked)
    try folder.openssl(
      "ca -gencrl -config \(name).cnf -cert \(issuer).pem -keyfile \(issuer).key -crl_lastupdate \(dates.from) "
        + "-crl_nextupdate \(dates.to) -out \(name).crl")
    try folder.openssl("crl -in \(name).crl -outform DER -out \(name).crl.der")
  }

  /// Writes what `openssl ca` and `openssl ocsp` read as the account of an authority.
  func writeIndex(_ file: String, good: [String] = [], revoking revoked: [String] = []) throws {
    func line(_ state: String, _ date: String, _ name: String) throws -> String {
      let serial = try folder.openssl("x509 -in \(name).pem -noout -serial").split(separator: "=")[1]
      return "\(state)\t450101000000Z\t\(date)\t\(serial.filter(\.isHexDigit))\tunknown\t/CN=\(name)\n"
    }
    let lines = try good.map { try line("V", "", $0) } + revoked.map { try line("R", "240101000000Z", $0) }
    try folder.write(file, lines.joined())
  }
}

/// An authority with an intermediate one, the certificate of a server and client, and revocation lists for them.
///
/// `leaf` is issued by `middle`, and that by `root`. A list is named after its issuer and what is special about it.
struct RevocationFiles {
  let folder: CertificateFolder
  let authority: Authority

  private static let made = Result { try RevocationFiles() }
  static var shared: RevocationFiles { get throws { try made.get() } }

  static let name = "server.test"
  static let past = (from: "20200101000000Z", to: "20210101000000Z")
  static let future = (from: "20440101000000Z", to: "20450101000000Z")

  private init() throws {
    folder = try CertificateFolder(isShared: true)
    authority = try Authority(in: folder, "root")
    let sign = "basicConstraints=critical,CA:TRUE\nkeyUsage=critical,keyCertSign,cRLSign"
    try authority.issue("middle", by: "root", extensions: sign)
    for leaf in ["leaf", "other"] {
      try authority.issue(leaf, by: "middle", extensions: "subjectAltName=DNS:\(Self.name)")
      try folder.write("\(leaf).chain", folder.read("\(leaf).pem") + folder.read("middle.pem"))
    }
    try authority.makeRoot("alone", extensions: "subjectAltName=DNS:\(Self.name)")
    try authority.makeRoot("stranger")
    try authority.makeRoot("impostor", subject: "/CN=middle")
    try authority.makeRevocationList("root-empty", by: "root")
    try authority.makeRevocationList("root-middle", by: "root", revoking: ["middle"])
    try authority.makeRevocationList("middle-empty", by: "middle")
    try authority.makeRevocationList("middle-leaf", by: "middle", revoking: ["other", "leaf"])
    try authority.makeRevocationList("middle-past", by: "middle", dates: Self.past)
    try authority.makeRevocationList("middle-future", by: "middle", dates: Self.future)
    try authority.makeRevocationList("stranger-empty", by: "stranger")
    try authority.makeRevocationList("impostor-empty", by: "impostor")
    try authority.makeRevocationList("impostor-plain", by: "impostor", extensions: "issuerAltName=DNS:impostor.test")
  }

  func identity(_ name: String = "leaf") throws -> TLSIdentity {
    let chain = name == "alone" ? "alone.pem" : "\(name).chain"
    return try TLSIdentity(certificateFile: folder(chain), keyFile: folder("\(name).key"))
  }

  func lists(_ names: [String], _ scope: TLSRevocation.Scope = .chain) -> TLSRevocation {
    .crls(names.map { .file(folder("\($0).crl")) }, scope: scope)
  }

  /// A context for a side that verifies the other one.
  func verifier(
    _ revocation: TLSRevocation = .none, version: TLSVersion? = nil, roots: [TLSTrustRoots]? = nil,
    _ change: (inout TLSConfiguration) throws -> Void = { _ in }
  ) throws -> TLSContext {
    try .made(.init(identity: identity("other"), trustRoots: roots ?? [.file(folder("root.pem"))]), version) {
      $0.clientCertificates = .required
      $0.revocation = revocation
      try change(&$0)
    }
  }

  /// A context for a side that shows a certificate and accepts any.
  func shower(_ name: String = "leaf") throws -> TLSContext {
    try .made(.init(identity: identity(name))) { $0.verification = .dangerouslyNone }
  }
}

enum VerifyingSide: CaseIterable {
  case client, server

  /// Makes a connection. The failures are those of the verifying end and of the other one.
  func connect(
    _ verifier: TLSContext, _ shower: TLSContext, decide: (TLSPeer) -> Result<Void, TLSError> = { _ in .success(()) }
  ) throws -> (ends: TwoEnds, failure: TLSError?, other: TLSError?) {
    let (client, server) = self == .client ? (verifier, shower) : (shower, verifier)
    let ends = try TwoEnds(client: client, server: server, serverName: RevocationFiles.name)
    let errors = ends.handshake(decide: decide)
    return self == .client ? (ends, errors.client, errors.server) : (ends, errors.server, errors.client)
  }

  func session(_ ends: TwoEnds) -> TLSSession { self == .client ? ends.client.session : ends.server.session }
}
