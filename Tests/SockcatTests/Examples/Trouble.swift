import ActorSockets
import ActorSocketsTLS

/// What to do about a connection that failed.
enum Advice: Equatable {
  case tryAgain, askSomebody(String), giveUp
}

/// Tells causes apart by their codes; the sentences are for people.
func advice(about error: any Error) -> Advice {
  switch error {
  case let error as TLSError:
    switch error.code {
    case .handshakeTimedOut, .closedDuringHandshake, .truncated: .tryAgain
    case .expired, .notYetValid, .nameMismatch, .unknownAuthority, .selfSigned: .askSomebody(error.description)
    case .alertReceived where error.alert == "certificate_expired": .askSomebody("our certificate has expired")
    default: .giveUp
    }
  case let error as SocketError where error.code == .timedOut || error.code == .connectionReset: .tryAgain
  default: .giveUp
  }
}
