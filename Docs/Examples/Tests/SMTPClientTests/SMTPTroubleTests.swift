import ActorSockets
import ActorSocketsTLS
import ExampleSupport
import Testing

@testable import SMTPClient

/// What the client does when the server or an attacker between the two does not do its part.
@Suite struct SMTPTroubleTests {
  /// Connects, and returns the error.
  private func failure(_ client: SMTPClient) async -> (any Error)? {
    do {
      await (try await client.connect()).quit()
      return nil
    } catch {
      return error
    }
  }

  @Test func `Without STARTTLS nothing but EHLO is sent`() async throws {
    try await within("the client refuses") {
      let server = try ScriptedServer { client, _ in
        try await client.say("220 hello\r\n")
        // As after an attacker has overwritten the offer.
        try await client.answer("250-mail\r\n250-XXXXXXXX\r\n250 AUTH PLAIN LOGIN\r\n")
        try await client.hearTheRest()
      }
      let error = await failure(try server.client { $0.credentials = .init(user: "ada", password: "secret") })
      #expect(error as? SMTPError == .noSTARTTLS)
      #expect(try await server.stop() == ["EHLO test"])
    }
  }

  @Test func `A refused STARTTLS is an error`() async throws {
    try await within("the client refuses") {
      let server = try ScriptedServer { client, _ in
        try await client.say("220 hello\r\n")
        try await client.answer("250-mail\r\n250 STARTTLS\r\n")
        try await client.answer("454 not now\r\n")
        try await client.hearTheRest()
      }
      let error = await failure(try server.client { $0.credentials = .init(user: "ada", password: "secret") })
      #expect((error as? SMTPRefusal)?.isTransient == true)
      #expect(try await server.stop() == ["EHLO test", "STARTTLS"])
    }
  }

  @Test func `Plain text behind the reply to STARTTLS is refused`() async throws {
    try await within("the client refuses") {
      let server = try ScriptedServer { client, context in
        try await client.say("220 hello\r\n")
        try await client.answer("250-mail\r\n250 STARTTLS\r\n")
        // The reply to an EHLO that the client has not sent yet.
        let secure = try await client.encrypt(with: context, reply: "220 go ahead\r\n250-mail\r\n250 AUTH PLAIN\r\n")
        try await secure.hearTheRest()
      }
      let error = await failure(try server.client { $0.credentials = .init(user: "ada", password: "secret") })
      #expect((error as? TLSError)?.code == .plaintextBeforeTLS)
      #expect(try await server.stop() == ["EHLO test", "STARTTLS"])
    }
  }

  @Test func `Extensions from before the encryption do not count`() async throws {
    try await within("the client refuses") {
      let server = try ScriptedServer { client, context in
        try await client.say("220 hello\r\n")
        try await client.answer("250-mail\r\n250-PIPELINING\r\n250-AUTH PLAIN\r\n250 STARTTLS\r\n")
        let secure = try await client.encrypt(with: context)
        try await secure.answer("250-mail\r\n250 AUTH CRAM-MD5\r\n")
        try await secure.hearTheRest()
      }
      let error = await failure(try server.client { $0.credentials = .init(user: "ada", password: "secret") })
      #expect(error as? SMTPError == .noMechanism(offered: ["CRAM-MD5"]))
      #expect(try await server.stop() == ["EHLO test", "STARTTLS", "EHLO test"])
    }
  }

  @Test(arguments: [false, true])
  func `A certificate for another name, or from an unknown authority, is refused`(isUnknown: Bool) async throws {
    try await within("the client refuses") {
      let server = try ScriptedServer(certifiedFor: isUnknown ? "localhost" : "mail.example.org") { client, context in
        try await client.say("220 hello\r\n")
        try await client.answer("250-mail\r\n250 STARTTLS\r\n")
        let secure = try await client.encrypt(with: context)
        try await secure.hearTheRest()
      }
      let error = await failure(try server.client { if isUnknown { $0.tls = TLSConfiguration() } })
      #expect((error as? TLSError)?.code == (isUnknown ? .selfSigned : .nameMismatch))
      #expect(try await server.stop() == ["EHLO test", "STARTTLS"])
    }
  }

  @Test func `A password is never sent in plain text`() throws {
    var configuration = SMTPClient.Configuration()
    configuration.security = .plainText
    configuration.credentials = .init(user: "ada", password: "secret")
    #expect(throws: SMTPError.passwordNeedsTLS) { try SMTPClient(.port(25), configuration: configuration) }
  }

  @Test(arguments: [
    "22", "hello\r\n", "220_hello\r\n", "920 hello\r\n", "220 hello\n", "220-hello\r\n221 hello\r\n", "2\r\n",
  ])
  func `Bytes that are no reply end the connection`(bytes: String) async throws {
    try await within("the client gives up") {
      let server = try ScriptedServer { client, _ in
        try await client.say(bytes)
        if bytes != "22" { try await client.hearTheRest() }
      }
      let error = await failure(try server.plainClient()) as? SocketError
      #expect(error?.code == (bytes == "22" ? .endOfStream : .invalidMessage))
      #expect(try await server.stop() == [])
    }
  }

  @Test(arguments: ["220-more\r\n", "2"]) func `An endless reply is refused`(part: String) async throws {
    try await within("the client refuses") {
      let server = try ScriptedServer { client, _ in
        while true { try await client.say(String(repeating: part, count: 1000)) }
      }
      let error = await failure(try server.plainClient()) as? SocketError
      #expect(error?.code == .invalidMessage)
      let expected: SMTPReplyParser.Malformed = part == "2" ? .lineTooLong : .tooManyLines
      #expect(error?.underlyingError as? SMTPReplyParser.Malformed == expected)
      _ = try await server.stop()
    }
  }

  @Test func `Half a reply has the time of a whole one`() async throws {
    try await within("the client gives up") {
      let server = try ScriptedServer { client, _ in
        try await client.say("220 hello\r\n")
        try await client.answer("250-mail\r\n250 SI")
        try await client.hearTheRest()
      }
      let error = await failure(try server.plainClient { $0.timeouts.command = .milliseconds(50) }) as? SocketError
      #expect(error?.code == .timedOut)
      #expect(try await server.stop() == ["EHLO test"])
    }
  }

  @Test func `421 in the middle is transient, and the connection is not used again`() async throws {
    try await within("the message is refused") {
      let server = try ScriptedServer { client, _ in
        try await client.say("220 hello\r\n")
        try await client.answer("250 mail\r\n")
        try await client.answer("250 sender\r\n")
        try await client.answer("421 4.3.2 the server stops\r\n")
        try await client.hearTheRest()
      }
      var connection = try await server.plainClient().connect()
      let message = try SMTPMessage(to: "bob@example.net", "eve@example.net", content: "text")
      do {
        _ = try await connection.send(message)
        Issue.record("a stopping server has accepted a message")
      } catch let refusal as SMTPRefusal {
        #expect(refusal == .transient(SMTPReply(code: 421, lines: ["4.3.2 the server stops"]), to: "RCPT"))
      }
      do {
        _ = try await connection.send(message)
        Issue.record("the connection was used again")
      } catch let error as SocketError {
        #expect(error.code == .closed)
      }
      await connection.quit()
      #expect(try await server.stop().last == "RCPT TO:<bob@example.net>")
    }
  }

  @Test func `A server that wants content without a recipient gets an empty message`() async throws {
    try await within("the next message is accepted") {
      let server = try ScriptedServer { client, _ in
        try await client.say("220 hello\r\n")
        try await client.answer("250-mail\r\n250 PIPELINING\r\n")
        // The client sends these three before the first answer.
        for _ in 0..<3 { try await client.hear() }
        try await client.say("250 sender\r\n550 recipient\r\n354 content\r\n")
        try await client.answer("554 no recipients\r\n")
        try await client.answer("250 reset\r\n")
        for _ in 0..<3 { try await client.hear() }
        try await client.say("250 sender\r\n250 recipient\r\n354 content\r\n")
        try await client.hear()
        try await client.answer("250 accepted\r\n")
        try await client.answer("221 goodbye\r\n")
      }
      var connection = try await server.plainClient().connect()
      let message = try SMTPMessage(to: "bob@example.net", content: "text")
      do {
        _ = try await connection.send(message)
        Issue.record("a message without a recipient was accepted")
      } catch SMTPError.noRecipient {}
      #expect(try await connection.send(message).reply.lines == ["accepted"])
      await connection.quit()
      let transaction = ["MAIL FROM:<ada@example.org>", "RCPT TO:<bob@example.net>", "DATA"]
      let rest = [".", "RSET"] + transaction + ["text", ".", "QUIT"]
      #expect(try await server.stop() == ["EHLO test"] + transaction + rest)
    }
  }

  @Test func `A server that does not take the content is given up`() async throws {
    try await within("the client gives up") {
      let server = try ScriptedServer { client, _ in
        try await client.say("220 hello\r\n")
        try await client.answer("250 mail\r\n")
        for code in [250, 250, 354] { try await client.answer("\(code) ok\r\n") }
        // Reads nothing more.
        _ = try await client.stream.closed
      }
      var connection = try await server.plainClient { $0.timeouts.dataBlock = .milliseconds(100) }.connect()
      // More than fits into the buffers of both kernels.
      let content = String(repeating: String(repeating: "a", count: 900) + "\n", count: 16_000)
      do {
        _ = try await connection.send(SMTPMessage(to: "bob@example.net", content: content))
        Issue.record("a server that does not read has accepted a message")
      } catch let error as SocketError {
        #expect(error.code == .timedOut)
      }
      await connection.quit()
      _ = try await server.stop()
    }
  }

  @Test func `Cancelling a message ends the connection`() async throws {
    try await within("the connection ends") {
      let (hasHeard, isOver, mayEnd) = (Gate(), Gate(), Gate())
      defer { mayEnd.open() }
      let server = try ScriptedServer { client, _ in
        try await client.say("220 hello\r\n")
        try await client.answer("250 mail\r\n")
        try await client.hear()
        hasHeard.open()
        // Throws when the client resets the connection.
        _ = try? await client.hear()
        isOver.open()
      }
      let sending = Task {
        var connection = try await server.plainClient().connect()
        var isCancelled = false
        do {
          _ = try await connection.send(SMTPMessage(to: "bob@example.net", content: "text"))
        } catch is CancellationError {
          isCancelled = true
        }
        // Dropping the connection would end it, too.
        await Task { await mayEnd.wait() }.value
        await connection.quit()
        return isCancelled
      }
      await hasHeard.wait()
      sending.cancel()
      await isOver.wait()
      try Task.checkCancellation()
      mayEnd.open()
      #expect(try await sending.value)
      #expect(try await server.stop() == ["EHLO test", "MAIL FROM:<ada@example.org>"])
    }
  }
}
