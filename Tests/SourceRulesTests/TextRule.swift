/// A file that may compare texts as Swift does, and why.
struct TextAllowance: Sendable {
  /// The path of a file, or the beginning of the paths of several.
  let path: String
  let reason: String

  func covers(_ file: SourceFile) -> Bool { file.path.hasPrefix(path) || file.path.hasSuffix("/\(path)") }
}

extension SourceRule {
  /// Text from a peer and the names of files are compared, split and searched as bytes. `String` compares by canonical equivalence, so
  /// U+212A equals K; it finds whole characters, so a slash with an accent behind it is no slash; and it knows the case of all letters.
  static let textsAreBytes = SourceRule { file in
    file.lines.indices.flatMap { index in
      textWords.filter { file.lines[index].has($0) }.map {
        Violation(
          line: index + 1,
          message:
            "\($0) compares characters: use bytes (utf8, ByteText), or put the file into the list with the reason")
      }
    }
  }

  /// The code of a line has its literals emptied.
  private static let textWords = [
    ".hasPrefix(", ".hasSuffix(", ".starts(with: \"\")", ".lowercased()", ".uppercased()", ".capitalized",
    "split(separator: \"\"", "(of: \"\"", ".contains(\"\")", "components(separatedBy", "replacing(\"\"",
    "== \"\"", "!= \"\"", "\"\" ==", "case \"\"", "case (\"\"", "[String:", "Set<String>",
    "isWhitespace", "isNewline", ".isLetter", ".isNumber", ".isHexDigit", "caseInsensitiveCompare",
  ]
}

extension Exceptions {
  /// Files in which texts are compared as Swift does.
  static let texts = [
    TextAllowance(path: "main.swift", reason: "the words of the program's own command line"),
    TextAllowance(path: "Sources/sockcat/CommandLine/", reason: "the words of the program's own command line"),
    TextAllowance(path: "Sources/sockcat/Documentation/", reason: "the program's own texts"),
    TextAllowance(path: "Sources/sockcat/Demo/", reason: "the demo's own texts, which it sends to itself"),
    TextAllowance(
      path: "Sources/sockcat/Inspecting/", reason: "the library's names of members, and a filter for people"),
    TextAllowance(path: "Sources/sockcat/Commands/Inspect.swift", reason: "the library's names of types of lines"),
    TextAllowance(path: "Sources/sockcat/Commands/Listen.swift", reason: "the library's names of operations"),
    TextAllowance(
      path: "Sources/sockcat/HTTP/HTTPRequest.swift", reason: "the methods are those of spans, which have bytes"),
    TextAllowance(path: "Sources/ActorSockets/Values/", reason: "the library's names of operations and system calls"),
    TextAllowance(
      path: "Sources/ActorSockets/UDP/UDPEndpoint+Multicast.swift", reason: "the library's names of operations"),
    TextAllowance(
      path: "Sources/ActorSockets/TCP/TCPConnection+Connecting.swift",
      reason: "the library's names of system calls, and whether a setting is empty"),
    TextAllowance(
      path: "Sources/SocketSystem/Addresses/AddressError.swift", reason: "it compares code points, to quote them"),
    TextAllowance(
      path: "Sources/ActorSocketsTesting/StaticResolver.swift", reason: "the test's own list, which it keeps by bytes"),
    TextAllowance(
      path: "Sources/ActorSocketsTLS/TLSConfiguration.swift",
      reason: "the program's own names, which are checked to be ASCII"),
    TextAllowance(
      path: "Sources/ActorSocketsTLS/IdentityTable.swift",
      reason: "the program's own names, which are checked to be ASCII and kept by bytes"),
    TextAllowance(
      path: "Sources/ActorSocketsTLS/Engine/TLSContext.swift",
      reason: "the program's own names, which are checked to be ASCII"),
    TextAllowance(
      path: "Sources/ActorSocketsTLS/Engine/ConfigurationCheck.swift",
      reason: "the program's own lists of ciphers and groups"),
    TextAllowance(
      path: "Docs/Examples/Sources/ActorSocketsTracing/SpanAttributes+Sockets.swift",
      reason: "the library's name of a version"),
    TextAllowance(
      path: "Docs/Examples/Sources/ReverseProxy/ProxySettings.swift", reason: "the keywords of the administrator's file"
    ),
    TextAllowance(
      path: "Docs/Examples/Sources/Discovery/DiscoveryMessage.swift",
      reason: "properties are for people; a message with two keys that look the same is refused"),
  ]
}
