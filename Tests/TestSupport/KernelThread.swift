import Glibc

/// A thread of this process as the kernel sees it: proc_pid_schedstat(5), proc_pid_syscall(5).
package struct KernelThread: Sendable {
  private let id: Int32

  package static var current: KernelThread { KernelThread(id: gettid()) }

  /// The time it ran, the time it waited for a processor, and how often it was scheduled. If the activity of a thread is the
  /// same as before, the thread did not run in between, so it made no system call.
  package var activity: String { get throws { try contents("schedstat") } }

  package enum SystemCall: Int, Sendable {
    #if arch(x86_64)
      case sendfile = 40
      case connect = 42
      case sendto = 44
      case recvfrom = 45
      case sendmsg = 46
      case recvmsg = 47
      case accept4 = 288
    #else
      case sendfile = 71
      case connect = 203
      case sendto = 206
      case recvfrom = 207
      case sendmsg = 211
      case recvmsg = 212
      case accept4 = 242
    #endif
  }

  package func waits(in call: SystemCall) throws -> Bool {
    try contents("syscall").split(separator: " ").first == "\(call.rawValue)"
  }

  /// The timeout in milliseconds of the epoll_wait(2) that the thread waits in, -1 for no timeout; `nil` if it is not in that
  /// call.
  package var pollTimeout: Int32? {
    get throws {
      // The file has the number of the system call and its arguments, or "running" for a thread that does not wait.
      let fields = try contents("syscall").split(separator: " ")
      guard fields.count > 4, let number = Int(fields[0]), Self.polls.contains(number),
        let timeout = UInt64(fields[4].dropFirst(2), radix: 16)
      else { return nil }
      return Int32(truncatingIfNeeded: timeout)
    }
  }

  /// The numbers of epoll_wait(2) and epoll_pwait(2).
  #if arch(x86_64)
    private static let polls = [232, 281]
  #else
    private static let polls = [22]
  #endif

  private func contents(_ name: String) throws -> String {
    let path = "/proc/self/task/\(id)/\(name)"
    // SAFETY: the file is closed once; no more bytes are read than the buffer has.
    guard let file = unsafe fopen(path, "r") else { throw Overdue(description: "\(path) cannot be read") }
    defer { unsafe fclose(file) }
    var bytes = [UInt8](repeating: 0, count: 256)
    let count = unsafe fread(&bytes, 1, bytes.count, file)
    return String(decoding: bytes[..<count], as: UTF8.self)
  }
}

// `import Glibc` does not declare it.
@_silgen_name("gettid") private func gettid() -> Int32
