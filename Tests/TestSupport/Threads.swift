import Glibc
import SocketSystem

/// Runs a call that blocks on a thread of its own.
package func onThread<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
  // The value passes through a lock. If the thread is done before the call suspends, the runtime does not tell the thread sanitizer that
  // what the thread wrote comes first.
  let result = Locked<Result<Value, any Error>?>(nil)
  await withCheckedContinuation { continuation in
    do {
      try startThread(name: "blocking") {
        let value = Result(catching: body)
        result.withLock { $0 = value }
        continuation.resume()
      }
    } catch {
      result.withLock { $0 = .failure(error) }
      continuation.resume()
    }
  }
  guard let value = result.withLock({ $0 }) else { throw CancellationError() }
  return try value.get()
}

/// The threads of this process with this name.
package func threads(named name: String) -> Int {
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
    let text = String(decoding: line.prefix { $0 != 0 && $0 != 10 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    if text == name { count += 1 }
  }
  return count
}

/// Blocks the thread until the condition is true; `false` if it did not come true in time.
package func blockThread(until condition: () -> Bool) -> Bool {
  for _ in 0..<20_000 * patience {
    if condition() { return true }
    _ = poll(nil, 0, 1)
  }
  return false
}
