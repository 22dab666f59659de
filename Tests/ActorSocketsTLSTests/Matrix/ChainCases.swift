import TestSupport

@testable import ActorSocketsTLS

extension MatrixCase {
  /// Who signed it, and what lies between it and a root, RFC 5280.
  static let chains: [MatrixCase] = [
    .init("a root that is not trusted", .unknownAuthority) {
      try $0.makeRoot("other")
      try $0.issue("leaf", by: "other", extensions: name)
    },
    .init("a root that is not trusted and is sent along", between: ["other"], .unknownAuthority) {
      try $0.makeRoot("other")
      try $0.issue("leaf", by: "other", extensions: name)
    },
    .init("a root of the same name with another key", .unknownAuthority) {
      try $0.makeRoot("other", subject: "/CN=root")
      try $0.issue("leaf", by: "other", extensions: name)
    },
    .init("two trusted roots of the same name, the second one signed", roots: ["root", "other"]) {
      try $0.makeRoot("other", subject: "/CN=root")
      try $0.issue("leaf", by: "other", extensions: name)
    },
    .init("signed by itself, not trusted", .selfSigned) { try $0.makeRoot("leaf", extensions: name) },
    .init("signed by itself, trusted", roots: ["leaf"]) { try $0.makeRoot("leaf", extensions: name) },
    .init("signed by itself, trusted, for another name", roots: ["leaf"], .nameMismatch) {
      try $0.makeRoot("leaf", extensions: "subjectAltName=DNS:other.example")
    },
    .init("an intermediate certificate", between: ["middle"]),
    .init("a missing intermediate certificate", .unknownAuthority),
    .init("an intermediate certificate of another name", between: ["wrong"], .unknownAuthority) {
      try $0.issueChain()
      try $0.issue("wrong", by: "root", extensions: authority)
    },
    .init("an intermediate certificate of the same name with another key", between: ["wrong"], .unknownAuthority) {
      try $0.issueChain()
      try $0.issue("wrong", by: "root", subject: "/CN=middle", extensions: authority)
    },
    .init("certificates in the wrong order", between: ["one", "two"]) { try $0.issueChain(of: ["one", "two"]) },
    .init("certificates that have nothing to do with it", between: ["stranger", "middle", "other"]) {
      try $0.issueChain()
      try $0.makeRoot("stranger")
      try $0.issue("other", by: "stranger")
    },
    .init("the root is sent along", between: ["middle", "root"]),
    .init("the same root twice", between: ["middle"], roots: ["root", "root"]),
    .init("only the intermediate certificate is trusted", between: ["middle"], roots: ["middle"], .unknownAuthority),
    .init("only the server's own certificate is trusted", between: ["middle"], roots: ["leaf"], .unknownAuthority),
    .init(
      "only the intermediate certificate is trusted, and the root is sent along", between: ["middle", "root"],
      roots: ["middle"], .unknownAuthority),
    .init("a chain may end at the intermediate certificate", between: ["middle"], roots: ["middle"], isPartial: true),
    .init("a chain may end at the intermediate certificate, which is not sent", roots: ["middle"], isPartial: true),
    .init("a chain may end at the server's own certificate", roots: ["leaf"], isPartial: true),
    .init(
      "a chain may end at a certificate, but not at another one", between: ["middle"], roots: ["other"],
      isPartial: true, .unknownAuthority
    ) {
      try $0.issueChain()
      try $0.issue("other", by: "root", extensions: authority)
    },
    .init(
      "a chain may end at the server's own certificate, which is for another name", roots: ["leaf"], isPartial: true,
      .nameMismatch
    ) {
      try $0.issue("leaf", by: "root", extensions: "subjectAltName=DNS:other.example")
    },
    .init(
      "a chain may end at the server's own certificate, which has expired", roots: ["leaf"], isPartial: true, .expired
    ) {
      try $0.issue("leaf", by: "root", extensions: name, dates: past)
    },
    .init(
      "an intermediate certificate signed by two roots, the one that is trusted first", between: ["crossed", "middle"]
    ) {
      try $0.issueCrossed()
    },
    // OpenSSL takes the first that fits, and does not come back to the other.
    .init(
      "an intermediate certificate signed by two roots, the one that is not trusted first",
      between: ["middle", "crossed"], .unknownAuthority
    ) {
      try $0.issueCrossed()
    },
    .init(
      "an intermediate certificate signed by two roots that are both trusted", between: ["middle", "crossed"],
      roots: ["root", "other"]
    ) {
      try $0.issueCrossed()
    },
    .init("five intermediate certificates", between: ["e", "d", "c", "b", "a"]) {
      try $0.issueChain(of: ["a", "b", "c", "d", "e"])
    },
    .init("more intermediate certificates than are allowed", between: ["c", "b", "a"], depth: 2, .chainTooLong) {
      try $0.issueChain(of: ["a", "b", "c"])
    },
    .init("as many intermediate certificates as are allowed", between: ["c", "b", "a"], depth: 3) {
      try $0.issueChain(of: ["a", "b", "c"])
    },
    .init("a path length that is kept", between: ["middle"]) {
      try $0.issueChain(extensions: "basicConstraints=critical,CA:TRUE,pathlen:0")
    },
    .init("a path length that is exceeded", between: ["two", "one"], .chainTooLong) {
      try $0.issueChain(of: ["one", "two"], extensions: "basicConstraints=critical,CA:TRUE,pathlen:0")
    },
    .init("signed by a certificate that is no authority's", between: ["middle"], .wrongPurpose) {
      try $0.issueChain(extensions: "basicConstraints=critical,CA:FALSE")
    },
    .init("signed by another server's certificate", between: ["middle"], .wrongPurpose) {
      try $0.issueChain(extensions: "")
    },
    .init("signed by an authority that may not sign", between: ["middle"], .wrongPurpose) {
      try $0.issueChain(extensions: "\(authority)\nkeyUsage=critical,digitalSignature")
    },
    .init("signed by an authority for certificates of clients", between: ["middle"], .wrongPurpose) {
      try $0.issueChain(extensions: "\(authority)\nextendedKeyUsage=clientAuth")
    },
    .init("a signature that is wrong", .badCertificate) {
      try $0.issue("leaf", by: "root", extensions: name)
      try $0.damageSignature(of: "leaf")
    },
    .init("a signature between that is wrong", between: ["middle"], .badCertificate) {
      try $0.issueChain()
      try $0.damageSignature(of: "middle")
    },
  ]
}

extension Authority {
  /// Makes the certificates between the root and `leaf`, each signed by the one before.
  func issueChain(
    of names: [String] = ["middle"], by root: String = "root", extensions: String = MatrixCase.authority
  ) throws {
    var issuer = root
    for name in names {
      try issue(name, by: issuer, extensions: extensions)
      issuer = name
    }
    try issue("leaf", by: issuer, extensions: MatrixCase.name)
  }

  /// Makes two certificates of one key between root and `leaf`: `crossed` is signed by the root, `middle` by another one.
  func issueCrossed() throws {
    try makeRoot("other")
    try issueChain(by: "other")
    try folder.write("crossed.key", folder.read("middle.key"))
    try issue("crossed", by: "root", subject: "/CN=middle", extensions: MatrixCase.authority)
  }

  /// Changes the last byte of a certificate, which belongs to its signature.
  func damageSignature(of name: String) throws {
    try folder.openssl("x509 -in \(name).pem -outform DER -out \(name).der")
    var der = try folder.read("\(name).der")
    der[der.count - 1] ^= 1
    try folder.write("\(name).der", der)
    try folder.openssl("x509 -inform DER -in \(name).der -out \(name).pem")
  }
}
