import ActorSockets

/// A command of beanstalkd's protocol: those that put jobs, and those that carry them out.
enum Command: Sendable {
  case put(priority: UInt32, timeToRun: Int, job: [UInt8])
  case reserve
  case delete(UInt64)
  case unknown
}

/// A line, and the job after it if the command is `put`.
struct CommandParser: MessageParser {
  /// As beanstalkd's default.
  static let longestJob = 65_535
  private static let longestLine = 224

  private var searched = 0
  /// Of a `put` whose line has been read.
  private var put: (priority: UInt32, timeToRun: Int, line: Int, job: Int)?

  mutating func parse(_ bytes: Span<UInt8>) throws -> ParseResult<Command> {
    if put == nil {
      guard let end = bytes.firstIndex(of: UInt8(ascii: "\n"), from: searched) else {
        searched = bytes.count
        if searched > Self.longestLine { throw Malformed() }
        return .incomplete()
      }
      let line = bytes.extracting(first: end)
      var place = 0
      let name = line.nextWord(&place)
      if line.extracting(name).isEqual(to: "put") {
        guard let priority = line.nextNumber(&place), line.nextNumber(&place) != nil,
          let timeToRun = line.nextNumber(&place),
          let count = line.nextNumber(&place), count <= Self.longestJob, priority <= UInt32.max
        else { throw Malformed() }
        put = (UInt32(priority), max(1, timeToRun), end + 1, count)
      } else if line.extracting(name).isEqual(to: "reserve") {
        return .message(.reserve, length: end + 1)
      } else if line.extracting(name).isEqual(to: "delete") {
        guard let id = line.nextNumber(&place) else { throw Malformed() }
        return .message(.delete(UInt64(id)), length: end + 1)
      } else {
        return .message(.unknown, length: end + 1)
      }
    }
    guard let put else { return .incomplete() }
    let length = put.line + put.job + 2
    if bytes.count < length { return .incomplete(missing: length - bytes.count) }
    let job = [UInt8](copying: bytes.extracting(put.line..<put.line + put.job))
    return .message(.put(priority: put.priority, timeToRun: put.timeToRun, job: job), length: length)
  }
}

struct Malformed: Error {}

extension Span<UInt8> {
  fileprivate func nextWord(_ place: inout Int) -> Range<Int> {
    let start = place
    while place < count, self[place] > UInt8(ascii: " ") { place += 1 }
    let end = place
    place = Swift.min(place + 1, count)
    return start..<end
  }

  fileprivate func nextNumber(_ place: inout Int) -> Int? {
    let word = nextWord(&place)
    if word.isEmpty || word.count > 18 { return nil }
    var number = 0
    for index in word {
      guard (UInt8(ascii: "0")...UInt8(ascii: "9")).contains(self[index]) else { return nil }
      number = number * 10 + Int(self[index] - UInt8(ascii: "0"))
    }
    return number
  }

  fileprivate func isEqual(to word: StaticString) -> Bool {
    if count != word.utf8CodeUnitCount { return false }
    for index in indices where self[index] != word.utf8Start[index] { return false }
    return true
  }
}
