/// A refusal by the server. The two cases demand different reactions.
enum SMTPRefusal: Error, Hashable, CustomStringConvertible {
  /// 4xx: try the same again later.
  case transient(SMTPReply, to: String)
  /// 5xx: the same will fail again.
  case permanent(SMTPReply, to: String)

  var reply: SMTPReply {
    switch self {
    case .transient(let reply, _), .permanent(let reply, _): reply
    }
  }

  var isTransient: Bool { if case .transient = self { true } else { false } }

  var description: String {
    switch self {
    case .transient(let reply, let command): "\(command) is refused for now: \(reply)"
    case .permanent(let reply, let command): "\(command) is refused: \(reply)"
    }
  }
}

/// An error that is not a refusal of a command.
enum SMTPError: Error, Hashable, CustomStringConvertible {
  /// The server does not offer STARTTLS, or an attacker has removed the offer.
  case noSTARTTLS
  /// A password would be sent in plain text.
  case passwordNeedsTLS
  /// The server offers neither PLAIN nor LOGIN.
  case noMechanism(offered: [String])
  /// The server has refused every recipient.
  case noRecipient([SMTPReceipt.Recipient])
  /// A reply that is neither a refusal nor a success of this command.
  case unexpectedReply(SMTPReply, to: String)
  case tooLarge(size: Int, limit: Int)
  /// The content is not ASCII, and the server only takes ASCII.
  case no8BITMIME
  /// A line of the content has more than 998 bytes.
  case lineTooLong
  case invalidAddress(String)
  /// A part of a command has a line break or another control character.
  case invalidCommand(String)

  var description: String {
    switch self {
    case .noSTARTTLS: "the server does not offer STARTTLS"
    case .passwordNeedsTLS: "a password is only sent over TLS"
    case .noMechanism(let offered): "the server offers neither AUTH PLAIN nor AUTH LOGIN, but: \(offered)"
    case .noRecipient(let recipients): "every recipient is refused: \(recipients.compactMap(\.refusal))"
    case .unexpectedReply(let reply, let command): "an unexpected reply to \(command): \(reply)"
    case .tooLarge(let size, let limit): "the message has \(size) bytes, and the server takes \(limit)"
    case .no8BITMIME: "the message is not ASCII, and the server does not offer 8BITMIME"
    case .lineTooLong: "a line of the message has more than 998 bytes"
    case .invalidAddress(let text): "\(text.debugDescription) is not a mail address"
    case .invalidCommand(let name): "a part of \(name) contains a control character"
    }
  }
}

/// The outcome of a message that the server has accepted.
struct SMTPReceipt: Hashable, Sendable {
  struct Recipient: Hashable, Sendable {
    var address: SMTPAddress
    /// Why this recipient does not get the message; `nil` if the server has accepted it.
    var refusal: SMTPRefusal?
  }

  /// The recipients, in the order of the message. At least one was accepted.
  var recipients: [Recipient]
  /// The last reply. Its text often names the message in the server's queue.
  var reply: SMTPReply
}
