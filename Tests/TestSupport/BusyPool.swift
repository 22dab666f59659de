import EpollReactor
import SocketSystem

/// Runs `body` on a reactor of its own while all threads of Swift's pool are busy.
package func whilePoolIsBusy(_ body: @escaping @Sendable () async throws -> Void) async throws {
  try await Task(executorPreference: Reactor()) {
    let (busy, mayEnd) = (Notes<Bool>(), Gate())
    defer { mayEnd.open() }
    let threads = usableProcessors()
    for _ in 0..<threads {
      Task.detached {
        busy.add(true)
        while !mayEnd.isOpen {}
      }
    }
    try await eventually("all threads are busy") { busy.all.count == threads }
    try await body()
  }.value
}
