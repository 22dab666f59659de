import EpollReactor
import Foundation
import SocketSystem
import Testing

/// How many times longer than usual everything may take, for slow machines and sanitizers: `ACTORSOCKETS_PATIENCE`.
private let patience = ProcessInfo.processInfo.environment["ACTORSOCKETS_PATIENCE"].flatMap { Int($0) } ?? 1

/// Waits until a condition holds, by asking again and again.
func eventually(_ what: String, seconds: Int = 60, _ condition: () -> Bool) async throws {
  let seconds = seconds * patience
  let end = ContinuousClock.now + .seconds(seconds)
  while !condition() {
    try #require(ContinuousClock.now < end, "after \(seconds) seconds still not: \(what)")
    try await letTimePass(milliseconds: 1)
  }
}

/// Lets time pass, on a thread of its own, to show that nothing happens meanwhile.
func letTimePass(milliseconds: Int32) async throws {
  try await onThread { _ = poll(nil, 0, milliseconds) }
}

/// Runs a call that blocks on a thread of its own.
func onThread(_ body: @escaping @Sendable () -> Void) async throws {
  try await withCheckedThrowingContinuation { (continuation: CheckedContinuation<Void, any Error>) in
    do {
      try startThread(name: "blocking") {
        body()
        continuation.resume()
      }
    } catch {
      continuation.resume(throwing: error)
    }
  }
}

/// The threads of this process that are reactors.
func reactorThreads() -> Int {
  // SAFETY: the directory and the files are used until they are closed, once each; the names in entries end with a NUL.
  guard let directory = unsafe opendir("/proc/self/task") else { return -1 }
  defer { unsafe closedir(directory) }
  var count = 0
  while let entry = unsafe readdir(directory) {
    let id = unsafe withUnsafePointer(to: &entry.pointee.d_name) { pointer in
      unsafe pointer.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
    }
    guard let file = unsafe fopen("/proc/self/task/\(id)/comm", "r") else { continue }
    defer { unsafe fclose(file) }
    var line = [CChar](repeating: 0, count: 64)
    guard unsafe fgets(&line, 64, file) != nil else { continue }
    if String(decoding: line.prefix { $0 != 0 && $0 != 10 }.map { UInt8(bitPattern: $0) }, as: UTF8.self) == "reactor" {
      count += 1
    }
  }
  return count
}

/// What happened, in order, from any thread.
final class Notes<Element: Sendable>: Sendable {
  private let list = Guarded<[Element]>([])
  func add(_ element: Element) { list.withLock { $0.append(element) } }
  var all: [Element] { list.withLock { $0 } }
}

/// Two connected sockets.
func socketPair() throws -> (Int32, Int32) {
  var ends: [Int32] = [-1, -1]
  // SAFETY: socketpair writes two ints, which the array has.
  let result = unsafe socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_NONBLOCK.rawValue), 0, &ends)
  try #require(result == 0)
  return (ends[0], ends[1])
}

/// An actor that notes what the reactor tells it.
actor Probe: EventHandler {
  nonisolated let executor: ReactorExecutor
  let registration: Registration
  nonisolated let events = Notes<UInt32>()
  nonisolated let deadlines = Notes<UInt64>()
  nonisolated let shutdowns = Notes<Bool>()
  private var reaction: (@Sendable (isolated Probe, Readiness) -> Void)?

  init(_ reactor: Reactor) {
    executor = ReactorExecutor(reactor)
    registration = Registration(on: reactor)
  }

  deinit { registration.reactor.submit { [registration] in registration.leave() } }

  func enter() throws { try registration.enter(self) }
  func react(_ reaction: @escaping @Sendable (isolated Probe, Readiness) -> Void) { self.reaction = reaction }
  func attach(_ number: Int32) throws { try registration.attach(Descriptor(owning: number)) }

  /// Closes the descriptor, and says which number it had.
  func closeDescriptor() -> Int32 {
    defer { registration.closeDescriptor() }
    return registration.socket?.number ?? -1
  }

  func pass() {}
  func askForTurn() { registration.askForTurn() }

  func handle(_ readiness: Readiness) {
    assertIsolated()
    events.add(readiness.rawValue)
    reaction?(self, readiness)
  }

  func deadlineReached(_ tag: UInt64) { deadlines.add(tag) }
  func reactorShutDown() { shutdowns.add(true) }
}
