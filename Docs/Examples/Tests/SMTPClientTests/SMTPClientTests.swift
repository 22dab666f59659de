import ActorSockets
import ActorSocketsTLS
import ExampleSupport
import Foundation
import Testing

@testable import SMTPClient

@Suite struct SMTPClientTests {
  @Test(
    .needs(.aiosmtpd), .needs(.openssl),
    arguments: [[], ["--login"], ["--pipelining"], ["--implicit"], ["--implicit", "--login"]])
  func `A message arrives as it was, encrypted and with a login`(options: [String]) async throws {
    try await within("the message is there") {
      let server =
        switch options.count {
        case 0: try await MailServer("--password", "secret")
        case 1: try await MailServer("--password", "secret", options[0])
        default: try await MailServer("--password", "secret", options[0], options[1])
        }
      let client = try server.client {
        $0.credentials = .init(user: "ada", password: "secret")
        if options.contains("--implicit") { $0.security = .implicitTLS }
      }
      var connection = try await client.connect()
      #expect(connection.extensions.has("PIPELINING") == options.contains("--pipelining"))
      let receipt = try await connection.send(
        SMTPMessage(
          to: "bob@example.net", "eve@[127.0.0.1]",
          content: "Subject: dots\n\n.\n..\r\n.text\rZürich\r\n\r\nno line end"))
      await connection.quit()
      #expect(receipt.reply == SMTPReply(code: 250, lines: ["2.0.0 queued as 1"]))
      #expect(receipt.recipients.allSatisfy { $0.refusal == nil })
      let messages = try await server.stop()
      try #require(messages.count == 1)
      let content = "Subject: dots\r\n\r\n.\r\n..\r\n.text\r\nZürich\r\n\r\nno line end\r\n"
      #expect(String(decoding: messages[0].content, as: UTF8.self) == content)
      #expect(messages[0].sender == "ada@example.org")
      #expect(messages[0].recipients == ["bob@example.net", "eve@[127.0.0.1]"])
      #expect(messages[0].options == ["SIZE=\(content.utf8.count)", "BODY=8BITMIME"])
      #expect(messages[0].user == (options.contains("--login") ? "LOGIN ada" : "PLAIN ada"))
      #expect(messages[0].encrypted && messages[0].client == "[127.0.0.1]")
    }
  }

  @Test(.needs(.aiosmtpd), .needs(.openssl), arguments: ["--pipelining", "--size=20000000"])
  func `Refusals concern a recipient or a message, and the connection goes on`(option: String) async throws {
    try await within("the messages are there") {
      let server = try await MailServer(option)
      var connection = try await server.client().connect()
      let some = try await connection.send(
        SMTPMessage(to: "nobody@example.net", "bob@example.net", "busy@example.net", content: "first"))
      #expect(some.recipients.map { $0.refusal?.reply.code } == [550, nil, 450])
      #expect(some.recipients.map { $0.refusal?.isTransient } == [false, nil, true])
      do {
        _ = try await connection.send(SMTPMessage(to: "nobody@example.net", "busy@example.net", content: "second"))
        Issue.record("a message without a recipient was accepted")
      } catch SMTPError.noRecipient(let recipients) {
        #expect(recipients.map { $0.refusal?.reply.code } == [550, 450])
      }
      do {
        _ = try await connection.send(SMTPMessage(to: "bob@example.net", content: "unwelcome"))
        Issue.record("an unwelcome message was accepted")
      } catch let refusal as SMTPRefusal {
        #expect(refusal.reply.code == 554 && !refusal.isTransient)
      }
      var bounce = try SMTPMessage(to: "bob@example.net", content: "last")
      bounce.sender = nil
      #expect(try await connection.send(bounce).reply.lines == ["2.0.0 queued as 2"])
      await connection.quit()
      let messages = try await server.stop()
      #expect(messages.map { String(decoding: $0.content, as: UTF8.self) } == ["first\r\n", "last\r\n"])
      #expect(messages.map(\.recipients) == [["bob@example.net"], ["bob@example.net"]])
      #expect(messages.last?.sender == "<>")
    }
  }

  @Test(.needs(.aiosmtpd), .needs(.openssl))
  func `A message of megabytes and with hundreds of recipients arrives`() async throws {
    try await within("the message is there") {
      let server = try await MailServer("--size", "30000000", "--pipelining")
      var connection = try await server.client().connect()
      let line = String(repeating: "0123456789", count: 99)
      let content = String(repeating: line + "\r\n", count: 2_000)
      var message = try SMTPMessage(to: "bob@example.net", content: content)
      message.recipients = try (0..<500).map { try SMTPAddress("user\($0)@example.net") }
      #expect(try await connection.send(message).recipients.count == 500)
      await connection.quit()
      let messages = try await server.stop()
      #expect(messages.first?.recipients.count == 500)
      #expect(messages.first?.content == Data(content.utf8))
    }
  }

  @Test(.needs(.aiosmtpd), .needs(.openssl))
  func `Messages that the server does not take are refused before anything is sent`() async throws {
    try await within("the errors are there") {
      let server = try await MailServer("--size", "1000", "--ascii", isPlain: true)
      var connection = try await server.client { $0.security = .plainText }.connect()
      func error(_ content: String, _ connection: inout SMTPConnection) async throws -> SMTPError? {
        do {
          _ = try await connection.send(SMTPMessage(to: "bob@example.net", content: content))
          return nil
        } catch let error as SMTPError {
          return error
        }
      }
      let tooLong = String(repeating: "\n", count: 501)
      #expect(try await error(tooLong, &connection) == .tooLarge(size: 1002, limit: 1000))
      #expect(try await error("Zürich", &connection) == .no8BITMIME)
      #expect(try await error(String(repeating: "a", count: 999), &connection) == .lineTooLong)
      #expect(try await error(String(repeating: "\n", count: 500), &connection) == nil)
      await connection.quit()
      #expect(try await server.stop().count == 1)
    }
  }

  @Test(.needs(.aiosmtpd), .needs(.openssl))
  func `A wrong password is a permanent refusal, and no error shows it`() async throws {
    try await within("the login is refused") {
      for option in ["--pipelining", "--login"] {
        let server = try await MailServer("--password", "secret", option)
        do {
          let client = try server.client { $0.credentials = .init(user: "ada", password: "guess") }
          await (try await client.connect()).quit()
          Issue.record("a wrong password was accepted")
        } catch let refusal as SMTPRefusal {
          #expect(refusal.reply.code == 535 && !refusal.isTransient)
          let shown = "\(refusal)"
          #expect(!shown.contains("guess") && !shown.contains(Data("guess".utf8).base64EncodedString()))
        }
        _ = try await server.stop()
      }
    }
  }

  @Test(.needs(.aiosmtpd), .needs(.openssl), .needs(.smtpClient))
  func `The program sends standard input, and its status says what happened`() async throws {
    try await within("the program has sent it") {
      let server = try await MailServer("--password", "secret")
      try server.folder.write("message", "Subject: hello\n\nfrom a file\n".utf8)
      func run(_ environment: String, _ recipients: String) async throws -> (Int32, String, String) {
        let command =
          "\(environment) exec '\(Tool.smtpClient.url.path)' \(server.endpoint) ada@example.org \(recipients) "
          + "< '\(server.folder.file("message"))'"
        let program = try Program(.shell, ["-c", command])
        return (try await program.exitStatus(), await program.output.whole, await program.errors.whole)
      }
      let trusted = "SMTP_CA='\(server.folder.file("certificate.pem"))' SMTP_USER=ada SMTP_PASSWORD=secret"
      let sent = try await run(trusted, "bob@example.net")
      #expect(sent == (0, "250 2.0.0 queued as 1\n", ""))
      let busy = try await run(trusted, "busy@example.net bob@example.net")
      #expect(busy.0 == 75 && busy.2.contains("busy@example.net: RCPT is refused for now: 450"))
      #expect(try await run(trusted, "nobody@example.net").0 == 69)
      #expect(try await run(trusted, "'bob@example.net>\nDATA'").0 == 64)
      let untrusted = try await run("", "bob@example.net")
      #expect(untrusted.0 == 75 && untrusted.2.hasPrefix("TLS: "))
      let messages = try await server.stop()
      #expect(messages.count == 2 && messages[0].user == "PLAIN ada")
    }
  }
}
