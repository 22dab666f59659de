@testable import ActorSocketsTLS

extension MatrixCase {
  /// Who signed it, and what lies between it and a root, RFC 5280.
  static let chains: [MatrixCase] = [
    MatrixCase(
      name: "a root that is not trusted",
      make: {
        try $0.makeRoot("other")
        try $0.issue("leaf", by: "other", extensions: name)
      }, code: .unknownAuthority),
    MatrixCase(
      name: "a root that is not trusted and is sent along",
      make: {
        try $0.makeRoot("other")
        try $0.issue("leaf", by: "other", extensions: name)
      }, between: ["other"], code: .unknownAuthority),
    MatrixCase(
      name: "a root of the same name with another key",
      make: {
        try $0.makeRoot("other", subject: "/CN=root")
        try $0.issue("leaf", by: "other", extensions: name)
      }, code: .unknownAuthority),
    MatrixCase(
      name: "two trusted roots of the same name, the second one signed",
      make: {
        try $0.makeRoot("other", subject: "/CN=root")
        try $0.issue("leaf", by: "other", extensions: name)
      }, roots: ["root", "other"], code: nil),
    MatrixCase(
      name: "signed by itself, not trusted", make: { try $0.makeRoot("leaf", extensions: name) }, code: .selfSigned),
    MatrixCase(
      name: "signed by itself, trusted", make: { try $0.makeRoot("leaf", extensions: name) }, roots: ["leaf"], code: nil
    ),
    MatrixCase(
      name: "signed by itself, trusted, for another name",
      make: { try $0.makeRoot("leaf", extensions: "subjectAltName=DNS:other.example") }, roots: ["leaf"],
      code: .nameMismatch),
    MatrixCase(name: "an intermediate certificate", make: { try $0.issueChain() }, between: ["middle"], code: nil),
    MatrixCase(name: "a missing intermediate certificate", make: { try $0.issueChain() }, code: .unknownAuthority),
    MatrixCase(
      name: "an intermediate certificate of another name",
      make: {
        try $0.issueChain()
        try $0.issue("wrong", by: "root", extensions: authority)
      }, between: ["wrong"], code: .unknownAuthority),
    MatrixCase(
      name: "an intermediate certificate of the same name with another key",
      make: {
        try $0.issueChain()
        try $0.issue("wrong", by: "root", subject: "/CN=middle", extensions: authority)
      }, between: ["wrong"], code: .unknownAuthority),
    MatrixCase(
      name: "certificates in the wrong order",
      make: { try $0.issueChain(of: ["one", "two"]) }, between: ["one", "two"], code: nil),
    MatrixCase(
      name: "certificates that have nothing to do with it",
      make: {
        try $0.issueChain()
        try $0.makeRoot("stranger")
        try $0.issue("other", by: "stranger")
      }, between: ["stranger", "middle", "other"], code: nil),
    MatrixCase(
      name: "the root is sent along", make: { try $0.issueChain() }, between: ["middle", "root"], code: nil),
    MatrixCase(
      name: "the same root twice", make: { try $0.issueChain() }, between: ["middle"], roots: ["root", "root"],
      code: nil),
    MatrixCase(
      name: "only the intermediate certificate is trusted", make: { try $0.issueChain() }, between: ["middle"],
      roots: ["middle"], code: .unknownAuthority),
    MatrixCase(
      name: "only the server's own certificate is trusted", make: { try $0.issueChain() }, between: ["middle"],
      roots: ["leaf"], code: .unknownAuthority),
    MatrixCase(
      name: "only the intermediate certificate is trusted, and the root is sent along", make: { try $0.issueChain() },
      between: ["middle", "root"], roots: ["middle"], code: .unknownAuthority),
    MatrixCase(
      name: "a chain may end at the intermediate certificate", make: { try $0.issueChain() }, between: ["middle"],
      roots: ["middle"], isPartial: true, code: nil),
    MatrixCase(
      name: "a chain may end at the intermediate certificate, which is not sent", make: { try $0.issueChain() },
      roots: ["middle"], isPartial: true, code: nil),
    MatrixCase(
      name: "a chain may end at the server's own certificate", make: { try $0.issueChain() }, roots: ["leaf"],
      isPartial: true, code: nil),
    MatrixCase(
      name: "a chain may end at a certificate, but not at another one",
      make: {
        try $0.issueChain()
        try $0.issue("other", by: "root", extensions: authority)
      }, between: ["middle"], roots: ["other"], isPartial: true, code: .unknownAuthority),
    MatrixCase(
      name: "a chain may end at the server's own certificate, which is for another name",
      make: { try $0.issue("leaf", by: "root", extensions: "subjectAltName=DNS:other.example") }, roots: ["leaf"],
      isPartial: true, code: .nameMismatch),
    MatrixCase(
      name: "a chain may end at the server's own certificate, which has expired",
      make: { try $0.issue("leaf", by: "root", extensions: name, dates: past) }, roots: ["leaf"], isPartial: true,
      code: .expired),
    MatrixCase(
      name: "an intermediate certificate signed by two roots, the one that is trusted first",
      make: { try $0.issueCrossed() }, between: ["crossed", "middle"], code: nil),
    // OpenSSL takes the first that fits, and does not come back to the other.
    MatrixCase(
      name: "an intermediate certificate signed by two roots, the one that is not trusted first",
      make: { try $0.issueCrossed() }, between: ["middle", "crossed"], code: .unknownAuthority),
    MatrixCase(
      name: "an intermediate certificate signed by two roots that are both trusted",
      make: { try $0.issueCrossed() }, between: ["middle", "crossed"], roots: ["root", "other"], code: nil),
    MatrixCase(
      name: "five intermediate certificates", make: { try $0.issueChain(of: ["a", "b", "c", "d", "e"]) },
      between: ["e", "d", "c", "b", "a"], code: nil),
    MatrixCase(
      name: "more intermediate certificates than are allowed", make: { try $0.issueChain(of: ["a", "b", "c"]) },
      between: ["c", "b", "a"], depth: 2, code: .chainTooLong),
    MatrixCase(
      name: "as many intermediate certificates as are allowed", make: { try $0.issueChain(of: ["a", "b", "c"]) },
      between: ["c", "b", "a"], depth: 3, code: nil),
    MatrixCase(
      name: "a path length that is kept",
      make: { try $0.issueChain(extensions: "basicConstraints=critical,CA:TRUE,pathlen:0") }, between: ["middle"],
      code: nil),
    MatrixCase(
      name: "a path length that is exceeded",
      make: { try $0.issueChain(of: ["one", "two"], extensions: "basicConstraints=critical,CA:TRUE,pathlen:0") },
      between: ["two", "one"], code: .chainTooLong),
    MatrixCase(
      name: "signed by a certificate that is no authority's",
      make: { try $0.issueChain(extensions: "basicConstraints=critical,CA:FALSE") }, between: ["middle"],
      code: .wrongPurpose),
    MatrixCase(
      name: "signed by another server's certificate", make: { try $0.issueChain(extensions: "") },
      between: ["middle"], code: .wrongPurpose),
    MatrixCase(
      name: "signed by an authority that may not sign",
      make: { try $0.issueChain(extensions: "\(authority)\nkeyUsage=critical,digitalSignature") },
      between: ["middle"], code: .wrongPurpose),
    MatrixCase(
      name: "signed by an authority for certificates of clients",
      make: { try $0.issueChain(extensions: "\(authority)\nextendedKeyUsage=clientAuth") }, between: ["middle"],
      code: .wrongPurpose),
    MatrixCase(
      name: "a signature that is wrong",
      make: {
        try $0.issue("leaf", by: "root", extensions: name)
        try $0.damageSignature(of: "leaf")
      }, code: .badCertificate),
    MatrixCase(
      name: "a signature between that is wrong",
      make: {
        try $0.issueChain()
        try $0.damageSignature(of: "middle")
      }, between: ["middle"], code: .badCertificate),
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
