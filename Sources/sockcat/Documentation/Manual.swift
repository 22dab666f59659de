/// The contents of the help, the man page and the completions, without their forms.
enum Manual {
  struct Section {
    let title: String
    let text: String
  }

  static let commands = [
    ConnectOptions.documentation, ListenOptions.documentation, ProxyOptions.documentation,
    UDPListenOptions.documentation, UDPSendOptions.documentation, InspectOptions.documentation,
  ]

  static let demo = "shows the library at work, on this machine"

  static let sections = [
    Section(
      title: "Endpoints",
      text: """
        host:port, [IPv6]:port, :port, unix:/path, unix:@name. Listening on port 0 uses a free port. Listening on \
        systemd: uses all sockets that systemd passes to the program, and systemd:NAME uses those of that name. S may \
        have a fraction.
        """),
    Section(
      title: "Environment",
      text: "\(ProxyURL.passwordVariable) has the password for the user that --proxy names."),
    Section(
      title: "Exit status", text: Failure.Status.meanings.map { "\($0) \($1)" }.joined(separator: ", ") + "."),
  ]
}

extension Failure.Status {
  static let meanings: [(Int32, String)] =
    [(0, "success")] + allCases.map { ($0.rawValue, $0.meaning) }

  private var meaning: String {
    switch self {
    case .inputOutput: "input or output failed"
    case .usage: "usage"
    case .verification: "a certificate was not accepted, by either side"
    case .timeout: "a time-out"
    }
  }
}
