/// A signal that a program can take over: signal(7).
public enum ProcessSignal: Int32, Hashable, Sendable, CaseIterable, CustomStringConvertible {
  /// SIGHUP: the terminal is gone; by convention, a server reads its configuration again.
  case hangup = 1
  /// SIGINT: Ctrl-C on the terminal.
  case interrupt = 2
  /// SIGQUIT: Ctrl-\ on the terminal.
  case quit = 3
  /// SIGUSR1: the program defines its meaning.
  case user1 = 10
  /// SIGUSR2: the program defines its meaning.
  case user2 = 12
  /// SIGTERM: the request to end, which systemd, containers and `kill` send.
  case terminate = 15
  /// SIGWINCH: the terminal has another size.
  case windowChange = 28

  /// The name of the signal, for example `SIGTERM`.
  public var description: String {
    switch self {
    case .hangup: "SIGHUP"
    case .interrupt: "SIGINT"
    case .quit: "SIGQUIT"
    case .user1: "SIGUSR1"
    case .user2: "SIGUSR2"
    case .terminate: "SIGTERM"
    case .windowChange: "SIGWINCH"
    }
  }
}
