import TestSupport
import Testing

@testable import ActorSocketsTLS

/// A chain of certificates that a server shows, what a client trusts and asks for, and what should come of it.
struct MatrixCase: Sendable, CustomTestStringConvertible {
  /// Whether OpenSSL's commands see it as we do.
  enum Commands {
    case agree
    /// They come to the other verdict, and why that is not ours.
    case differ(String)
  }

  let name: String
  let asked: String
  /// The certificates that the server sends after its own, which is `leaf`.
  let between: [String]
  let roots: [String]
  let depth: Int
  /// Whether a chain may end at a trusted certificate that did not sign itself.
  let isPartial: Bool
  /// Why it is refused, or nil if it is accepted.
  let code: TLSError.Code?
  let commands: Commands
  /// Makes the files, in a folder that has `root.pem` and `root.key`.
  let make: @Sendable (Authority) throws -> Void

  init(
    _ name: String, asked: String = "www.example.org", between: [String] = [], roots: [String] = ["root"],
    depth: Int = 10, isPartial: Bool = false, _ code: TLSError.Code? = nil, _ commands: Commands = .agree,
    make: @escaping @Sendable (Authority) throws -> Void = { try $0.issueChain() }
  ) {
    self.name = name
    self.asked = asked
    self.between = between
    self.roots = roots
    self.depth = depth
    self.isPartial = isPartial
    self.code = code
    self.commands = commands
    self.make = make
  }

  var testDescription: String { name }
}

extension MatrixCase {
  /// A certificate of the root's with these alternative names.
  static func names(
    _ name: String, _ alternatives: String, asked: String = "www.example.org", _ code: TLSError.Code?,
    _ commands: Commands = .agree
  ) -> MatrixCase {
    MatrixCase(name, asked: asked, code, commands) {
      try $0.issue("leaf", by: "root", subject: "/CN=somebody", extensions: "subjectAltName=\(alternatives)")
    }
  }

  /// A certificate of the root's with the right name, and these extensions.
  static func extensions(_ name: String, _ extensions: String, _ code: TLSError.Code?) -> MatrixCase {
    MatrixCase(name, code) { try $0.issue("leaf", by: "root", extensions: "\(Self.name)\n\(extensions)") }
  }

  static let name = "subjectAltName=DNS:www.example.org"
  static let authority = "basicConstraints=critical,CA:TRUE"
  static let past = ("20200101000000Z", "20210101000000Z")
  static let future = ("20440101000000Z", "20450101000000Z")
  static let rsa1024 = "rsa:1024"
}
