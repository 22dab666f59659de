import ActorSockets
import EpollReactor
import Glibc
import TestSupport

@testable import ActorSocketsTesting

/// Runs `body`, and then waits until no more descriptors are open than before.
func expectNoDescriptors(_ body: @Sendable () async throws -> Void) async throws {
  try await within("the descriptors are closed") {
    if Simulation.current != nil {
      // The reactor's descriptor stays open.
      await (try TCPListener.bind(to: .port(0))).close()
      let before = openDescriptors()
      try await body()
      try await eventually("no more than \(before) descriptors are open") { openDescriptors() <= before }
      return
    }
    // Descriptors that stay open are opened first: the reactor's, its wake event, those of Swift's pool.
    let listener = try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)))
    await listener.serveNobody()
    _ = await TCPConnection(to: .address(try unusedAddress())).state
    try await Reactor.shared.sleeps()
    let before = openDescriptors()
    try await body()
    try await eventually("no more than \(before) descriptors are open") { openDescriptors() <= before }
  }
}

extension TCPListener {
  /// Begins to serve, and stops at once.
  fileprivate func serveNobody() async {
    let serving = Task { try await serve { _ in } }
    serving.cancel()
    _ = await serving.result
  }
}

/// The descriptors that this process has open.
func openDescriptors() -> Int {
  if let thread = VirtualThread.current {
    let kernel = thread.network.kernel(of: thread.network.currentHost())
    return kernel?.files.count { $0 != nil } ?? 0
  }
  // SAFETY: the directory is used until it is closed, once, at the end.
  guard let directory = unsafe opendir("/proc/self/fd") else { return -1 }
  defer { unsafe closedir(directory) }
  var count = 0
  while unsafe readdir(directory) != nil { count += 1 }
  // "." and "..", and the one that lists them.
  return count - 3
}

/// The descriptors that are open when those of the tests before have gone.
func settledDescriptors() async throws -> Int {
  var before = openDescriptors()
  var looks = 0
  try await eventually("no more descriptors are closed") {
    let now = openDescriptors()
    looks = now == before ? looks + 1 : 0
    before = now
    return looks == 50
  }
  return before
}
