import ActorSockets
import Foundation
import Glibc
import TestSupport
import Testing

/// A resource of which this process has too little for a while. Only for a process of its own.
enum Shortage: String, CaseIterable, Codable {
  case descriptors, threads

  /// The code of the errors that result.
  var code: SocketError.Code { self == .descriptors ? .tooManyOpenFiles : .system }

  /// Runs `body` without free descriptors, or without the right to more threads.
  ///
  /// Without descriptors, Swift's pool may end the process: see `PoolDescriptors`. So `body` is short.
  func during<Value>(_ body: () throws -> Value) rethrows -> Value {
    let before = setLimit(0)
    defer { restore(before) }
    return try body()
  }

  /// Runs `body` without the right to more threads.
  static func duringThreadShortage<Value: Sendable>(
    _ body: nonisolated(nonsending) () async throws -> Value
  ) async throws -> Value {
    try await fillPool()
    let before = Shortage.threads.setLimit(0)
    defer { Shortage.threads.restore(before) }
    return try await body()
  }

  /// Makes Swift's pool start all threads that it may have. If it could not start one later, it would try again and again.
  private static func fillPool() async throws {
    let count = ProcessInfo.processInfo.activeProcessorCount
    let running = Notes<Int>()
    await withTaskGroup(of: Void.self) { group in
      for number in 0..<count {
        group.addTask {
          running.add(number)
          #expect(blockThread { running.all.count == count })
        }
      }
    }
  }

  private var resource: __rlimit_resource_t {
    __rlimit_resource_t(self == .descriptors ? RLIMIT_NOFILE.rawValue : __RLIMIT_NPROC.rawValue)
  }

  private func setLimit(_ count: UInt) -> UInt {
    // The limit of threads does not apply to root: the real user and the effective one must be others. Root stays the saved one.
    if self == .threads, geteuid() == 0 {
      #expect(setreuid(Self.nobody, 0) == 0)
      #expect(seteuid(Self.nobody) == 0)
    }
    var limit = rlimit()
    // SAFETY: the calls read or write one struct rlimit.
    unsafe getrlimit(resource, &limit)
    let before = limit.rlim_cur
    limit.rlim_cur = count
    #expect(unsafe setrlimit(resource, &limit) == 0)
    return before
  }

  private func restore(_ before: UInt) {
    var limit = rlimit()
    // SAFETY: as above.
    unsafe getrlimit(resource, &limit)
    limit.rlim_cur = before
    unsafe setrlimit(resource, &limit)
    if self == .threads, seteuid(0) == 0 { setreuid(0, 0) }
  }

  private static var nobody: UInt32 { 65_534 }
}

/// Changes the soft limit of this process's descriptors, and returns the one before.
@discardableResult
func setDescriptorLimit(_ count: Int) -> Int {
  var limit = rlimit()
  // SAFETY: both calls get a valid struct rlimit.
  unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
  let before = Int(limit.rlim_cur)
  limit.rlim_cur = UInt(count)
  #expect(unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit) == 0)
  return before
}
