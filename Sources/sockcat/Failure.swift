import ActorSockets

/// Why the program ends with another status than 0: one line for people, one number for scripts.
struct Failure: Error, Equatable {
  /// The exit statuses.
  enum Status: Int32 {
    case inputOutput = 1
    case usage = 2
    case timeout = 4
  }

  let status: Status
  let message: String

  init(_ status: Status, _ message: String) {
    self.status = status
    self.message = message
  }

  /// What an error of any kind means for the exit status.
  init(_ error: any Error) {
    switch error {
    case let failure as Failure: self = failure
    case let error as SocketError: self.init(Self.status(of: error.code), error.description)
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
}
