import TestSupport

@testable import ActorSocketsTLS

extension MatrixCase {
  /// Names and addresses, RFC 9525.
  static let names: [MatrixCase] = [
    .names("the exact name", "DNS:www.example.org", nil),
    .names("capitals in the certificate", "DNS:WWW.Example.ORG", nil),
    .names("capitals in the name that is asked for", "DNS:www.example.org", asked: "WWW.Example.ORG", nil),
    .names("the second of three names", "DNS:a.example,DNS:www.example.org,DNS:b.example", nil),
    .names("another name", "DNS:other.example.org", .nameMismatch),
    .names("a name that only ends with it", "DNS:example.org", .nameMismatch),
    .names("a wildcard for the first label", "DNS:*.example.org", nil),
    .names("a wildcard for two labels", "DNS:*.example.org", asked: "a.b.example.org", .nameMismatch),
    .names("a wildcard for no label", "DNS:*.example.org", asked: "example.org", .nameMismatch),
    .names(
      "a wildcard for a part of a label", "DNS:w*.example.org", .nameMismatch,
      .differ("RFC 9525, section 6.3, has no such wildcards; the commands cannot be told to refuse them")),
    .names("a wildcard in the second label", "DNS:www.*.org", .nameMismatch),
    .names("a wildcard for a whole top-level domain", "DNS:*.org", asked: "example.org", .nameMismatch),
    .names("a wildcard alone", "DNS:*", asked: "localhost", .nameMismatch),
    .names("two wildcards", "DNS:*.*.org", .nameMismatch),
    .names("a wildcard for a label in Punycode", "DNS:*.example.org", asked: "xn--bcher-kva.example.org", nil),
    .names("a name in Punycode", "DNS:xn--bcher-kva.example.org", asked: "xn--bcher-kva.example.org", nil),
    .names("a dot at the end in the certificate", "DNS:www.example.org.", .nameMismatch),
    .names(
      "a dot at the end of the name that is asked for", "DNS:www.example.org", asked: "www.example.org.", nil,
      .differ("the dot only says that the name is complete; the commands compare it")),
    .names("an IPv4 address", "IP:192.0.2.1", asked: "192.0.2.1", nil),
    .names("another IPv4 address", "IP:192.0.2.2", asked: "192.0.2.1", .nameMismatch),
    .names("an IPv6 address, written differently", "IP:2001:db8:0:0::1", asked: "2001:db8::1", nil),
    .names("another IPv6 address", "IP:2001:db8::2", asked: "2001:db8::1", .nameMismatch),
    .names("an address as a name", "DNS:192.0.2.1", asked: "192.0.2.1", .nameMismatch),
    .names("a wildcard for a part of an address", "DNS:*.0.2.1", asked: "192.0.2.1", .nameMismatch),
    .names("a name where only an address is certified", "IP:192.0.2.1", .nameMismatch),
    // 0x82 is the tag of a name: "www.example.org", a NUL, and ".evil.example".
    .names(
      "a NUL in the middle of the name",
      "DER:301f821d7777772e6578616d706c652e6f7267002e6576696c2e6578616d706c65", .nameMismatch),
    .init(
      "the name as the subject's common name alone", .nameMismatch,
      .differ("RFC 9525, section 2, does not look at the common name; the commands do if there is no other")
    ) {
      try $0.issue("leaf", by: "root", subject: "/CN=www.example.org")
    },
    .init("the common name beside another alternative name", .nameMismatch) {
      try $0.issue("leaf", by: "root", subject: "/CN=www.example.org", extensions: "subjectAltName=DNS:other.example")
    },
    .init(
      "the common name beside an e-mail address", .nameMismatch,
      .differ("as above: there is no alternative name of a host")
    ) {
      try $0.issue(
        "leaf", by: "root", subject: "/CN=www.example.org", extensions: "subjectAltName=email:me@example.org")
    },
    .init("an address as the common name", asked: "192.0.2.1", .nameMismatch) {
      try $0.issue("leaf", by: "root", subject: "/CN=192.0.2.1")
    },
    .init("no name at all", .nameMismatch) { try $0.issue("leaf", by: "root", subject: "/O=Example") },
  ]
}
