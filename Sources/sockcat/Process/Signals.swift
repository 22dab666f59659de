import Dispatch
import Glibc

/// The signals SIGTERM and SIGINT, which ask the program to stop.
final class StopSignals {
  private let stream: AsyncStream<Void>
  /// The sources are kept here, because a source without references is cancelled.
  private let sources: [any DispatchSourceSignal]

  /// Replaces the default handling of the signals. When this returns, they no longer end the process.
  init() async {
    let (stream, continuation) = AsyncStream.makeStream(of: Void.self)
    self.stream = stream
    sources = [SIGTERM, SIGINT].map { DispatchSource.makeSignalSource(signal: $0, queue: .global()) }
    for source in sources {
      source.setEventHandler { @Sendable in continuation.yield() }
      await withCheckedContinuation { (isInstalled: CheckedContinuation<Void, Never>) in
        source.setRegistrationHandler { @Sendable in isInstalled.resume() }
        source.activate()
      }
    }
  }

  /// Runs `body`. Meanwhile, the first signal calls `drain`, and each further signal calls `abort`.
  func during<Value>(
    drain: @escaping @Sendable () async -> Void, abort: @escaping @Sendable () async -> Void,
    _ body: () async throws -> Value
  ) async throws -> Value {
    let watcher = Task { [stream] in
      var isDraining = false
      for await _ in stream {
        if isDraining { await abort() } else { await drain() }
        isDraining = true
      }
    }
    defer { watcher.cancel() }
    return try await body()
  }
}
