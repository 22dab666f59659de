import ActorSockets

struct InspectOptions: Equatable {
  var endpoint: Endpoint
  var isJSON = false
  var watches = false
  var interval = Duration.seconds(1)
  var sort = InspectionTable.Key.since
  var filter: String?
  var connection: Int?
}

extension InspectOptions: CommandOptions {
  static let text = CommandText(
    name: "inspect", operands: ["PATH"],
    missingOperand: "say which socket to ask, as in: sockcat inspect /run/app/inspect.sock",
    summary: "shows what a running program waits for",
    text: """
      Asks a program that serves its inspection on a unix socket, and prints a table of its connections, listeners, \
      endpoints and pools: what each waits for, and since when. PATH is the path of the socket.
      """)

  static let options: [Option<InspectOptions>] = [
    Option("--json", "prints the lines of JSON as they come") { $0.isJSON = true },
    Option("--watch", "prints the table again and again, until SIGINT or SIGTERM") { $0.watches = true },
    Option("--interval", .seconds, "waits S seconds before the table is printed again; 1 without this option") {
      $0.interval = try $1.seconds()
      $0.watches = true
    },
    Option(
      "--sort", .choice(InspectionTable.Key.words),
      "sorts by this column: the largest times and numbers of bytes first; by since without this option"
    ) { $0.sort = try $1.choice() },
    Option("--filter", .named("TEXT"), "shows only rows with this text in a column") { $0.filter = $1.text },
    Option("--connection", .number, "shows everything about the connection or endpoint with this number") {
      $0.connection = try $1.count()
    },
  ]

  static func parse(_ words: inout Words) throws(Failure) -> InspectOptions? {
    // A placeholder, replaced below when the path is known.
    var options = InspectOptions(endpoint: .unix(path: ""))
    guard let operands = try options.read(&words) else { return nil }
    if operands[0].isEmpty { throw .usage("the path of the socket is empty") }
    options.endpoint = .unix(path: operands[0].hasPrefix("unix:") ? String(operands[0].dropFirst(5)) : operands[0])
    if options.isJSON, options.filter != nil || options.connection != nil {
      throw .usage("--json passes all lines on: --filter and --connection are for the table")
    }
    return options
  }
}
