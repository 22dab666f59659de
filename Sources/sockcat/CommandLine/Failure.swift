import ActorSockets
import ActorSocketsTLS

/// The reason why the program ends with a status other than 0: one line for people, one number for scripts.
struct Failure: Error, Equatable {
  enum Status: Int32, CaseIterable {
    case inputOutput = 1
    case usage = 2
    /// The identity of a peer is false, or could not be verified.
    case verification = 3
    case timeout = 4
  }

  let status: Status
  let message: String

  init(_ status: Status, _ message: String) {
    self.status = status
    self.message = message
  }

  init(_ error: any Error) {
    switch error {
    case let failure as Failure: self = failure
    case let error as SocketError: self.init(Self.status(of: error.code), error.description)
    case let error as TLSError: self.init(Self.status(of: error), error.description)
    case let error as PipeError: self.init(Failure(error.underlyingError).status, error.description)
    case is CancellationError: self.init(.inputOutput, "interrupted")
    default: self.init(.inputOutput, "\(error)")
    }
  }

  static func usage(_ message: String) -> Failure { Failure(.usage, message + " (see sockcat --help)") }

  private static func status(of code: SocketError.Code) -> Status {
    switch code {
    case .timedOut: .timeout
    case .invalidArgument: .usage
    default: .inputOutput
    }
  }

  /// A refused certificate has the same status whichever side refused it, because scripts that check the status need
  /// not distinguish the two.
  private static func status(of error: TLSError) -> Status {
    switch error.code {
    case .unknownAuthority, .selfSigned, .expired, .notYetValid, .nameMismatch, .wrongPurpose, .chainTooLong,
      .nameConstraint, .revoked, .weakCertificate, .publicKeyNotPinned, .badCertificate, .rejected,
      .clientCertificateRequired:
      .verification
    case .alertReceived where refusals.contains(error.alert ?? ""): .verification
    case .handshakeTimedOut: .timeout
    case .invalidServerName, .invalidConfiguration: .usage
    default: .inputOutput
    }
  }

  /// The alerts by which a peer refuses a certificate: RFC 8446, section 6.2.
  private static let refusals: Set = [
    "bad_certificate", "unsupported_certificate", "certificate_revoked", "certificate_expired", "certificate_unknown",
    "unknown_ca", "access_denied", "certificate_required",
  ]
}
