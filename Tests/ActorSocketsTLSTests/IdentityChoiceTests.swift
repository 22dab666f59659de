import TestSupport
import Testing

@testable import ActorSocketsTLS

@Suite struct IdentityChoiceTests {
  private static let one = Result { try TLSIdentity.selfSigned(for: ["one.example"]) }
  private static let many = Result { try TLSIdentity.selfSigned(for: ["*.many.example"]) }

  private func shown(by server: TLSContext, to name: String) throws -> String? {
    let roots = try [Self.one, Self.many, Made.identity].map { try $0.get().certificate }
    let client = try TLSContext(TLSConfiguration(trustRoots: [.certificates(roots)]))
    let ends = try TwoEnds(client: client, server: server, serverName: name)
    ends.handshake()
    return ends.client.error?.certificate ?? ends.client.session.peerCertificate?.subject
  }

  @Test func `The name that the client asks for decides`() throws {
    let server = try Made.server {
      $0.identities = ["One.Example.": try Self.one.get(), "*.many.example": try Self.many.get()]
    }
    #expect(try shown(by: server, to: "one.example") == "CN=one.example")
    #expect(try shown(by: server, to: "ONE.example") == "CN=one.example")
    #expect(try shown(by: server, to: "a.many.example") == "CN=*.many.example")
    #expect(try shown(by: server, to: "many.example") == "CN=example.org")
    #expect(try shown(by: server, to: "a.b.many.example") == "CN=example.org")
    #expect(try shown(by: server, to: "192.0.2.1") == "CN=example.org")
  }

  @Test func `A certificate with a key of another kind than the usual one is shown all the same`() throws {
    let rsa = try TLSIdentity.selfSigned(for: ["rsa.example"], key: .rsa2048)
    let server = try Made.server { $0.identities = ["rsa.example": rsa] }
    let client = try TLSContext(
      TLSConfiguration(trustRoots: [.certificates([rsa.certificate, try Made.identity.get().certificate])]))
    for (name, subject) in [("rsa.example", "CN=rsa.example"), ("example.org", "CN=example.org")] {
      let ends = try TwoEnds.up(client: client, server: server, serverName: name)
      #expect(ends.client.session.peerCertificate?.subject == subject)
    }
  }

  @Test func `The program's closure is asked first, once, and may leave it to the table`() throws {
    let names = Notes<String?>()
    let server = try Made.server {
      $0.identities = ["one.example": try Made.other.get()]
      $0.chooseIdentity = { name in
        names.add(name)
        return name == "one.example" ? try? Self.one.get() : nil
      }
    }
    #expect(try shown(by: server, to: "one.example") == "CN=one.example")
    #expect(try shown(by: server, to: "example.org") == "CN=example.org")
    #expect(try shown(by: server, to: "192.0.2.1") == "CN=example.org")
    #expect(names.all == ["one.example", "example.org", nil])
  }

  @Test func `A name that there is nothing for is refused with an alert`() throws {
    let server = try TLSContext.made { $0.identities = ["one.example": try Self.one.get()] }
    let ends = try TwoEnds(client: Made.client(), server: server, serverName: "two.example")
    let errors = ends.handshake()
    #expect(errors.server?.code == .noIdentity && errors.server?.alert == "unrecognized_name")
    #expect(errors.server?.description.contains("\"two.example\"") ?? false)
    #expect(errors.client?.alert == "unrecognized_name")
  }

  @Test func `New certificates are for later handshakes`() throws {
    let server = try Made.server()
    let before = try TwoEnds.up(client: Made.client(), server: server)
    try server.replaceIdentities(identity: Self.one.get(), identities: ["*.many.example": Self.many.get()])
    #expect(try shown(by: server, to: "one.example") == "CN=one.example")
    #expect(try shown(by: server, to: "a.many.example") == "CN=*.many.example")
    try before.client.write(Array("still here".utf8))
    #expect(try before.server.read() == Array("still here".utf8))
    #expect(before.client.session.peerCertificate?.subject == "CN=example.org")
  }

  @Test func `An invalid name is refused, and nothing is replaced`() throws {
    let server = try Made.server()
    refused(.invalidServerName) {
      try server.replaceIdentities(identity: Self.one.get(), identities: ["*.": Self.one.get()])
    }
    #expect(try shown(by: server, to: "example.org") == "CN=example.org")
  }
}
