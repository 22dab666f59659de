import ActorSockets

struct Inspect {
  /// For an answer as a whole. A reactor that does not answer takes a second of it.
  static let timeout = Duration.seconds(60)
  static let longestLine = 1 << 20
  /// Of an answer as a whole, in bytes. A connection has a few hundred, and with many waiting operations a few thousand.
  static let largestAnswer = 1 << 28

  let options: InspectOptions

  func run() async throws {
    let signals = try StopSignals()
    let output = StandardOutput()
    let printing = Task {
      repeat {
        let text = try await report()
        // The terminal's cursor goes to the first line, and what is below is cleared.
        let clears = options.watches && !options.isJSON && output.isTerminal
        try await output.write(utf8: (clears ? "\u{1b}[H\u{1b}[2J" : "") + text)
        if options.watches { try await Task.sleep(for: options.interval) }
      } while options.watches
    }
    do {
      try await signals.during {
        printing.cancel()
      } abort: {
        printing.cancel()
      } _: {
        try await printing.value
      }
    } catch is CancellationError {}
  }

  private func report() async throws -> String {
    let lines = try await answer()
    let values = lines.map(\.value)
    guard values.first?["type"].text == "process", values.last?["type"].text == "end" else {
      throw Failure(.inputOutput, noInspection)
    }
    guard values[0]["format"] == .number(1) else {
      throw Failure(.inputOutput, "the inspection has a format that this version of sockcat does not know")
    }
    if options.isJSON { return lines.map { InspectionTable.printable(json: $0.text) + "\n" }.joined() }
    let table = InspectionTable(values)
    guard let number = options.connection else { return table.text(sortedBy: options.sort, filter: options.filter) }
    guard let detail = table.detail(of: number) else {
      throw Failure(.inputOutput, "there is no connection with the number \(number)")
    }
    return detail
  }

  private var noInspection: String {
    "\(options.endpoint) is not an inspection, or it was cut off, or refused this user"
  }

  private func answer() async throws -> [(text: String, value: JSONValue)] {
    let end = ContinuousClock.now + Self.timeout
    return try await TCPConnection.withConnection(to: options.endpoint, timeout: .until(end)) { connection in
      var lines: [(text: String, value: JSONValue)] = []
      var bytes = 0
      for try await line in connection.lines(maximumLength: Self.longestLine, timeout: .until(end)) {
        // A short line takes more memory than its bytes.
        bytes += line.utf8.count + 100
        if bytes > Self.largestAnswer { throw Failure(.inputOutput, "the answer has more than 256 MiB") }
        guard let value = JSONValue(parsing: line) else { throw Failure(.inputOutput, noInspection) }
        lines.append((line, value))
      }
      return lines
    }
  }
}
