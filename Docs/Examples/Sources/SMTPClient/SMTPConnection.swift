import ActorSockets

/// A connection on which one message after the other can be sent.
///
/// A transaction consists of several commands, so two tasks must not use the connection at the same time. The compiler refuses it,
/// because the type cannot be copied and ``send(_:)`` is mutating. For parallel transactions, make several connections.
struct SMTPConnection: ~Copyable, Sendable {
  private let dialogue: SMTPDialogue
  /// What the server offers, after the login.
  let extensions: SMTPExtensions
  private let timeouts: SMTPClient.Timeouts

  init(dialogue: SMTPDialogue, extensions: SMTPExtensions, timeouts: SMTPClient.Timeouts) {
    (self.dialogue, self.extensions, self.timeouts) = (dialogue, extensions, timeouts)
  }

  /// Sends a message.
  ///
  /// After `SMTPRefusal` and `SMTPError.noRecipient`, the connection can send other messages, unless the code was 421. After `SocketError`,
  /// `TLSError` and `CancellationError` it is unusable, and it is not known whether the server has accepted the message if the content was
  /// under way.
  ///
  /// *Cancellation* ends the connection.
  ///
  /// - Parameter message: The message.
  /// - Returns: Which recipients were accepted.
  /// - Throws: `SMTPRefusal`; `SMTPError`; `SocketError`, `.timedOut` among others; `TLSError`; `CancellationError`.
  mutating func send(_ message: SMTPMessage) async throws -> SMTPReceipt {
    let content = try SMTPContent(message.content)
    let commands = try transaction(message, content)
    let outcomes = try await dialogue.outcomes(of: commands, isPipelined: extensions.has("PIPELINING"))
    let recipients = zip(message.recipients, outcomes[1...]).map { address, outcome in
      var recipient = SMTPReceipt.Recipient(address: address)
      if case .failure(let refusal) = outcome { recipient.refusal = refusal }
      return recipient
    }
    do {
      _ = try outcomes[0].get()
      guard recipients.contains(where: { $0.refusal == nil }) else { throw SMTPError.noRecipient(recipients) }
      _ = try outcomes[outcomes.count - 1].get()
    } catch {
      await cancelTransaction(serverExpectsContent: (try? outcomes[outcomes.count - 1].get()) != nil)
      throw error
    }
    return SMTPReceipt(recipients: recipients, reply: try await dialogue.send(content, timeouts))
  }

  /// Returns the commands MAIL, RCPT for each recipient, and DATA.
  private func transaction(_ message: SMTPMessage, _ content: SMTPContent) throws -> [SMTPCommand] {
    if let limit = extensions.sizeLimit, content.size > limit {
      throw SMTPError.tooLarge(size: content.size, limit: limit)
    }
    if content.is8Bit, !extensions.has("8BITMIME") { throw SMTPError.no8BITMIME }
    if message.recipients.isEmpty { throw SMTPError.noRecipient([]) }
    var mail = "FROM:<\(message.sender?.description ?? "")>"
    if extensions.has("SIZE") { mail += " SIZE=\(content.size)" }
    if content.is8Bit { mail += " BODY=8BITMIME" }
    return [SMTPCommand("MAIL", mail, timeout: timeouts.command)]
      + message.recipients.map { SMTPCommand("RCPT", "TO:<\($0)>", timeout: timeouts.command) }
      + [SMTPCommand("DATA", success: 3, timeout: timeouts.data)]
  }

  /// Makes the server forget a transaction. If this fails, the connection is aborted, and the next message finds that out.
  private func cancelTransaction(serverExpectsContent: Bool) async {
    // A server may accept a pipelined DATA although it has refused every recipient. RFC 2920, section 3.1: send an empty message, which
    // it refuses.
    if serverExpectsContent { _ = try? await dialogue.outcomes(of: [SMTPCommand(".", timeout: timeouts.dataEnd)]) }
    _ = try? await dialogue.outcomes(of: [SMTPCommand("RSET", timeout: timeouts.command)])
  }

  /// Says goodbye, and closes the connection. Errors do not matter: the server has answered for every message.
  consuming func quit() async {
    _ = try? await dialogue.outcomes(of: [SMTPCommand("QUIT", timeout: timeouts.quit)])
    await dialogue.stream.close()
  }
}
