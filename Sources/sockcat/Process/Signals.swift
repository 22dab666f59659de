import Dispatch
import Glibc

/// SIGTERM and SIGINT, which ask the program to stop, as they come.
final class StopSignals {
  private let stream: AsyncStream<Void>
  /// A source that nobody holds is cancelled.
  private let sources: [any DispatchSourceSignal]

  /// Takes the signals over from the system. When it returns, they do not end the process any more.
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

  /// Runs `body`; the first signal calls `drain`, each further one `abort`.
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
