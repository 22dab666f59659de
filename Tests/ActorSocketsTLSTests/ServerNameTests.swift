import TestSupport
import Testing

@testable import ActorSocketsTLS

@Suite(.tags(.pure)) struct ServerNameTests {
  @Test(arguments: [
    ("example.org", "example.org"), ("EXAMPLE.Org", "example.org"), ("example.org.", "example.org"),
    ("localhost", "localhost"), ("a_b.example", "a_b.example"), ("xn--bcher-kva.example", "xn--bcher-kva.example"),
    ("3com.com", "3com.com"), ("1.2.3.com", "1.2.3.com"),
  ])
  func `Names of hosts are written in one way`(text: String, name: String) throws {
    #expect(try ServerName(parsing: text) == .host(name))
  }

  @Test func `Addresses are told from names`() throws {
    #expect(try ServerName(parsing: "192.0.2.1") == .address([192, 0, 2, 1], "192.0.2.1"))
    let six = [UInt8](repeating: 0, count: 15) + [1]
    for text in ["::1", "0:0:0:0:0:0:0:1", "::1%lo"] { #expect(try ServerName(parsing: text) == .address(six, "::1")) }
  }

  @Test(arguments: [
    ("", "it is empty"), (".", "it is empty"), (".example.org", "a part between dots is empty"),
    ("example..org", "a part between dots is empty"), ("example.org..", "a part between dots is empty"),
    ("exa\0mple.org", "it has a character other than"), ("*.example.org", "it has a character other than"),
    ("[::1]", "it has a character other than"), ("a b", "it has a character other than"),
    ("::g", "it has a character other than"), ("example.org:443", "it has a character other than"),
    ("b\u{fc}cher.example", "write it in its \"xn--\" form"), ("127.1", "it ends with a number"),
    ("1.2.3.4.5", "it ends with a number"), ("1.2.3.256", "it ends with a number"), ("1", "it ends with a number"),
    (String(repeating: "a.", count: 128), "more than 253 bytes"),
    (String(repeating: "a", count: 64), "more than 63 bytes"),
  ])
  func `An invalid name is refused with the reason`(text: String, clause: String) throws {
    let error = refused(.invalidServerName) { try ServerName(parsing: text) }
    #expect(error?.description.contains(clause) ?? false, "\(String(describing: error))")
    refused(.invalidServerName) { try TwoEnds(client: Made.client(), server: Made.server(), serverName: text) }
  }

  @Test func `The longest name is one`() throws {
    let name = String(repeating: "a.", count: 126) + "b"
    #expect(try ServerName(parsing: name) == .host(name))
    #expect(try ServerName(parsing: name + ".") == .host(name))
  }
}
