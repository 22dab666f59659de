import NIOCore
import NIOPosix
import ServerSupport

/// What a deadline costs on SwiftNIO: tasks that are scheduled on the event loop, from the event loop, and cancelled.
///
/// Prints one line of JSON: processor time of an operation, in nanoseconds.
@main
struct NIOTimers {
  static func main() async throws {
    var arguments = Arguments(usage: "nio-timers [--operations N]")
    let count = arguments.take("--operations", or: 1_000_000) { Int($0) }
    let group = MultiThreadedEventLoopGroup(numberOfThreads: 1)
    let loop = group.next()
    let figures = try await loop.submit {
      _ = armInTurn(loop, count / 10)
      let inTurn = armInTurn(loop, count)
      _ = armAtOnce(loop, count / 10)
      let atOnce = armAtOnce(loop, count)
      return #"{"operations": \#(count), "in_turn_ns": \#(inTurn), "at_once_ns": \#(atOnce)}"#
    }.get()
    print(figures)
    try await group.shutdownGracefully()
  }

  /// Each is cancelled before the next one is scheduled.
  private static func armInTurn(_ loop: any EventLoop, _ count: Int) -> Double {
    let stopwatch = Stopwatch()
    for _ in 0..<count {
      loop.assumeIsolated().scheduleTask(in: .seconds(60)) {}.cancel()
    }
    return stopwatch.nanoseconds(per: count)
  }

  /// All are scheduled before the first one is cancelled.
  private static func armAtOnce(_ loop: any EventLoop, _ count: Int) -> Double {
    let stopwatch = Stopwatch()
    let scheduled = (0..<count).map { _ in loop.assumeIsolated().scheduleTask(in: .seconds(60)) {} }
    for task in scheduled { task.cancel() }
    return stopwatch.nanoseconds(per: count)
  }
}
