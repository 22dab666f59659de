// Sends a message from standard input.
//
//   SMTPClient HOST:PORT SENDER RECIPIENT… < MESSAGE
//
// SMTP_USER and SMTP_PASSWORD log in. SMTP_TLS is starttls, implicit or none; the default is implicit for port 465, and otherwise starttls.
// SMTP_CA names a file with an authority to trust, in place of the system's.
//
// The exit status is one of sysexits.h: 0 if the server has accepted every recipient, 75 if it is worth trying again later, 69 if it is not,
// and 64 if the arguments are wrong.

import ActorSockets
import ActorSocketsTLS
import Foundation

func say(_ text: String) { FileHandle.standardError.write(Data((text + "\n").utf8)) }

struct UsageError: Error, CustomStringConvertible {
  var description: String
}

func makeClient(_ server: Endpoint, _ environment: [String: String]) throws -> SMTPClient {
  var configuration = SMTPClient.Configuration()
  let security: [String: SMTPClient.Security] = ["starttls": .startTLS, "implicit": .implicitTLS, "none": .plainText]
  if let name = environment["SMTP_TLS"] {
    guard let chosen = security[name] else { throw UsageError(description: "SMTP_TLS is starttls, implicit or none") }
    configuration.security = chosen
  } else if case .host(_, 465) = server {
    configuration.security = .implicitTLS
  }
  if let user = environment["SMTP_USER"] {
    configuration.credentials = .init(user: user, password: environment["SMTP_PASSWORD"] ?? "")
  }
  if let file = environment["SMTP_CA"] { configuration.tls.trustRoots = [.file(file)] }
  return try SMTPClient(server, configuration: configuration)
}

/// Sends the message. Returns the exit status.
func send(_ message: SMTPMessage, with client: SMTPClient) async -> Int32 {
  do {
    var connection = try await client.connect()
    let receipt = try await connection.send(message)
    await connection.quit()
    print(receipt.reply)
    return report(receipt.recipients)
  } catch SMTPError.noRecipient(let recipients) {
    return report(recipients)
  } catch {
    say("\(error)")
    return switch error {
    case let refusal as SMTPRefusal: refusal.isTransient ? EX_TEMPFAIL : EX_UNAVAILABLE
    case is SMTPError: EX_UNAVAILABLE
    default: EX_TEMPFAIL
    }
  }
}

func report(_ recipients: [SMTPReceipt.Recipient]) -> Int32 {
  for recipient in recipients { if let refusal = recipient.refusal { say("\(recipient.address): \(refusal)") } }
  let refusals = recipients.compactMap(\.refusal)
  return refusals.isEmpty ? EX_OK : refusals.contains(where: \.isTransient) ? EX_TEMPFAIL : EX_UNAVAILABLE
}

let arguments = CommandLine.arguments
guard arguments.count >= 4 else {
  say("usage: SMTPClient HOST:PORT SENDER RECIPIENT… < MESSAGE")
  exit(EX_USAGE)
}
do {
  let client = try makeClient(Endpoint(parsing: arguments[1]), ProcessInfo.processInfo.environment)
  let message = SMTPMessage(
    sender: arguments[2].isEmpty ? nil : try SMTPAddress(arguments[2]),
    recipients: try arguments[3...].map { try SMTPAddress($0) },
    content: Array(try FileHandle.standardInput.readToEnd() ?? Data()))
  exit(await send(message, with: client))
} catch {
  say("\(error)")
  exit(EX_USAGE)
}
