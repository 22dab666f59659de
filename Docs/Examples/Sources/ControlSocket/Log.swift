import Glibc
import Synchronization

/// Writes lines to standard error. The level can be changed while the program runs.
final class Log: Sendable {
  enum Level: String, CaseIterable, Comparable, Sendable {
    case debug, info, error

    static func < (left: Level, right: Level) -> Bool {
      left != right && allCases.first { $0 == left || $0 == right } == left
    }
  }

  private let current = Mutex(Level.info)

  var level: Level {
    get { current.withLock { $0 } }
    set { current.withLock { $0 = newValue } }
  }

  func write(_ level: Level, _ text: @autoclosure () -> String) {
    if level < self.level { return }
    let bytes = Array("\(level.rawValue): \(text())\n".utf8)
    _ = Glibc.write(2, bytes, bytes.count)
  }
}
