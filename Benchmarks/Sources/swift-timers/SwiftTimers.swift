import ActorSockets
import Glibc
import ServerSupport

/// What a deadline costs on ActorSockets: reads with a timeout that never expires, beside the same reads without one.
///
/// Prints one line of JSON: processor time of an operation, in nanoseconds.
@main
struct SwiftTimers {
  private static let timeout = Timeout.within(.seconds(60))

  static func main() async throws {
    var arguments = Arguments(usage: "swift-timers [--operations N]")
    let count = arguments.take("--operations", or: 1_000_000) { Int($0) }
    let reactor = Reactor.shared
    let figures = try await Task(executorPreference: reactor) {
      let (reader, writer) = try await connectedPair()
      return try await measure(reader, writer, count)
    }.value
    print(figures)
  }

  private static func measure(_ reader: TCPConnection, _ writer: TCPConnection, _ count: Int) async throws -> String {
    // Once without being counted, and then the two kinds in turn.
    _ = try await readInTurn(reader, writer, count / 10, nil)
    let inTurn = try await readInTurn(reader, writer, count, timeout)
    let inTurnWithout = try await readInTurn(reader, writer, count, nil)
    _ = try await readAtOnce(reader, writer, count / 10, nil)
    let atOnce = try await readAtOnce(reader, writer, count, timeout)
    let atOnceWithout = try await readAtOnce(reader, writer, count, nil)
    return """
      {"operations": \(count), "in_turn_ns": \(inTurn - inTurnWithout), "at_once_ns": \(atOnce - atOnceWithout), \
      "read_in_turn_ns": \(inTurn), "read_in_turn_without_ns": \(inTurnWithout), \
      "read_at_once_ns": \(atOnce), "read_at_once_without_ns": \(atOnceWithout)}
      """
  }

  /// One read after the other, of bytes that are there.
  private static func readInTurn(
    _ reader: TCPConnection, _ writer: TCPConnection, _ count: Int, _ timeout: Timeout?
  ) async throws -> Double {
    let supply = Task { try await writer.write([UInt8](repeating: 1, count: count)) }
    let stopwatch = Stopwatch()
    for _ in 0..<count {
      _ = try await reader.read(exactly: 1, timeout: timeout)
    }
    let figure = stopwatch.nanoseconds(per: count)
    try await supply.value
    return figure
  }

  /// All reads wait before the first byte comes: as many deadlines at a time.
  private static func readAtOnce(
    _ reader: TCPConnection, _ writer: TCPConnection, _ count: Int, _ timeout: Timeout?
  ) async throws -> Double {
    let stopwatch = Stopwatch()
    let reads = (0..<count).map { _ in reader.enqueueRead(.exactly(1), timeout: timeout) }
    try await writer.write([UInt8](repeating: 1, count: count))
    for read in reads {
      _ = try await read.value
    }
    return stopwatch.nanoseconds(per: count)
  }
}

private func connectedPair() async throws -> (TCPConnection, TCPConnection) {
  let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
  let connecting = TCPConnection(to: try Endpoint(parsing: "\(listener.localAddresses[0])"))
  let accepted = try await listener.accept()
  await listener.close()
  return (accepted, connecting)
}
