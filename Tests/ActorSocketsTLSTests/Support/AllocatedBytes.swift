import Glibc
import TestSupport

/// What the allocator has given out and not got back, by its own account: malloc_info(3).
func allocatedBytes() throws -> Int {
  var text: UnsafeMutablePointer<CChar>?
  var length = 0
  // SAFETY: the stream's memory is freed here, after the stream is closed and its text is copied.
  guard let stream = unsafe open_memstream(&text, &length) else { throw Overdue(description: "no memory") }
  _ = unsafe mallocInfo(0, stream)
  unsafe fclose(stream)
  defer { unsafe free(text) }
  let report = unsafe text.map { unsafe String(cString: $0) } ?? ""
  // The sums come last: what the system gave, and what of it is free.
  guard let sums = report.split(separator: "</heap>").last else { return 0 }
  var taken = 0
  for line in sums.split(separator: "\n") {
    guard let number = line.firstMatch(of: /size="(\d+)"/).flatMap({ Int($0.1) }) else { continue }
    if line.contains("system type=\"current\"") || line.contains("type=\"mmap\"") { taken += number }
    if line.contains("type=\"fast\"") || line.contains("type=\"rest\"") { taken -= number }
  }
  return taken
}

/// From now on, nothing in this process is told of thrown errors.
///
/// The testing library keeps a backtrace of about 200 bytes for each error. A test that measures memory would measure that.
func removeThrowHandler() { setWillThrowHandler(nil) }

// `import Glibc` does not bring it.
@_silgen_name("malloc_info") private func mallocInfo(_ options: Int32, _ stream: UnsafeMutablePointer<FILE>) -> Int32

// A function of the Swift runtime that no header declares.
@_silgen_name("_swift_setWillThrowHandler")
private func setWillThrowHandler(_ handler: (@convention(c) (UnsafeRawPointer?) -> Void)?)
