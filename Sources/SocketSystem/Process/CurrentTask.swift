internal import CLinux

/// The task whose code runs on the calling thread.
///
/// The standard library offers the same through closures and references, which takes 300 instructions more for an echo. This calls the
/// runtime directly: `swift_task_getCurrent` and `swift_task_isCancelled`, functions with Swift's calling convention that the compiler
/// and the standard library call. Their signatures are part of the runtime's ABI on Apple's systems. A test compares them with the
/// standard library. A build with ACTORSOCKETS_PLAIN uses the standard library.
package enum CurrentTask {
  /// Tells the task from all other tasks that live; 0 if no task runs.
  package static var number: UInt {
    #if ACTORSOCKETS_PLAIN
      // SAFETY: it is hashed within the closure.
      unsafe withUnsafeCurrentTask { task in unsafe task.map { unsafe UInt(bitPattern: $0.hashValue) | 1 } ?? 0 }
    #else
      // SAFETY: only the address is looked at.
      unsafe UInt(bitPattern: clinux_current_task())
    #endif
  }

  /// `false` if no task runs.
  package static var isCancelled: Bool {
    #if ACTORSOCKETS_PLAIN
      Task.isCancelled
    #else
      clinux_current_task_is_cancelled()
    #endif
  }

  @inline(__always)
  package static func checkCancellation() throws(CancellationError) {
    if isCancelled { throw CancellationError() }
  }
}
