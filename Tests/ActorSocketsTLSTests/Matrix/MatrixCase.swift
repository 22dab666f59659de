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
  /// The name or address that the client asks for.
  var asked = "www.example.org"
  /// Makes the files, in a folder that has `root.pem` and `root.key`.
  let make: @Sendable (Authority) throws -> Void
  /// The server's certificate, without the ending of its file.
  var leaf = "leaf"
  /// The certificates that the server sends after its own.
  var between: [String] = []
  /// What the client trusts.
  var roots = ["root"]
  var depth = 10
  /// Whether a chain may end at a trusted certificate that did not sign itself.
  var isPartial = false
  /// Why it is refused, or nil if it is accepted.
  let code: TLSError.Code?
  var commands = Commands.agree

  var testDescription: String { name }
}

extension MatrixCase {
  /// A certificate of the root's with these alternative names.
  static func names(
    _ name: String, _ alternatives: String, asked: String = "www.example.org", _ code: TLSError.Code?,
    _ commands: Commands = .agree
  ) -> MatrixCase {
    MatrixCase(
      name: name, asked: asked,
      make: { try $0.issue("leaf", by: "root", subject: "/CN=somebody", extensions: "subjectAltName=\(alternatives)") },
      code: code, commands: commands)
  }

  /// A certificate of the root's with the right name, and these extensions.
  static func extensions(_ name: String, _ extensions: String, _ code: TLSError.Code?) -> MatrixCase {
    MatrixCase(
      name: name,
      make: { try $0.issue("leaf", by: "root", extensions: "subjectAltName=DNS:www.example.org\n\(extensions)") },
      code: code)
  }

  static let name = "subjectAltName=DNS:www.example.org"
  static let authority = "basicConstraints=critical,CA:TRUE"
  static let past = ("20200101000000Z", "20210101000000Z")
  static let future = ("20440101000000Z", "20450101000000Z")
  static let rsa1024 = "rsa:1024"
}
