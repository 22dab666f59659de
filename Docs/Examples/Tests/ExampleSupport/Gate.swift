/// A gate that is closed at first. Tasks wait in front of it, and go on when it is open.
public final class Gate: Sendable {
  private let stream: AsyncStream<Void>
  private let continuation: AsyncStream<Void>.Continuation

  /// Creates a closed gate. One task may wait for it.
  public init() { (stream, continuation) = AsyncStream.makeStream() }

  /// Opens the gate.
  public func open() { continuation.finish() }

  /// Waits until the gate is open, or the task is cancelled.
  public func wait() async {
    for await _ in stream {}
  }
}
