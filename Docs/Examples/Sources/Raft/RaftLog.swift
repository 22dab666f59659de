/// Who sent a request, and which of its requests it is. A client has one request at a time, and numbers them from 1 on.
struct Session: Hashable, Sendable {
  var client: UInt64
  var number: UInt64
}

/// What an entry of the log does to the values.
enum Command: Hashable, Sendable {
  /// A new leader begins with it, because it may only commit entries of its own term.
  case nothing
  case put(key: [UInt8], value: [UInt8], Session)
}

struct LogEntry: Hashable, Sendable {
  var term: UInt64
  var command: Command
}

/// The entries of a node. The first one has the index 1.
struct RaftLog: Hashable, Sendable {
  private(set) var entries: [LogEntry] = []

  init(_ entries: [LogEntry] = []) { self.entries = entries }

  var lastIndex: Int { entries.count }
  var lastTerm: UInt64 { entries.last?.term ?? 0 }

  subscript(index: Int) -> LogEntry { entries[index - 1] }

  /// The term of an entry, 0 before the first one; `nil` if there is no such entry.
  func term(at index: Int) -> UInt64? {
    if index == 0 { return 0 }
    return index > 0 && index <= entries.count ? entries[index - 1].term : nil
  }

  /// At most `count` entries that follow the one with the index `index`.
  func entries(after index: Int, atMost count: Int) -> [LogEntry] {
    Array(entries[min(index, entries.count)..<min(index + count, entries.count)])
  }

  mutating func append(_ entry: LogEntry) { entries.append(entry) }

  /// Removes all entries after the one with the index `index`.
  mutating func removeAll(after index: Int) { entries.removeLast(max(0, entries.count - index)) }
}
