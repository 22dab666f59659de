import Glibc

package enum CurrentProcess {
  package static var id: Int32 { getpid() }
  package static var userID: UInt32 { geteuid() }

  /// getenv(3). The C library has no lock around the environment. No other thread may change it at the same moment.
  package static func variable(_ name: String) -> String? {
    // SAFETY: the text that is found ends with a NUL, and is copied before anything else is done.
    guard let value = unsafe getenv(name) else { return nil }
    return unsafe String(cString: value)
  }

  /// `net.ipv4.ip_unprivileged_port_start` in ip(7), or 1024 if the kernel does not report it.
  package static var lowestUnprivilegedPort: Int {
    // SAFETY: the text is valid for the call.
    let number = unsafe open("/proc/sys/net/ipv4/ip_unprivileged_port_start", O_RDONLY | O_CLOEXEC)
    guard number >= 0, let file = try? OwnedDescriptor(new: number) else { return 1024 }
    var text = [UInt8](repeating: 0, count: 16)
    // SAFETY: read(2) writes no more than the array has room for.
    let count = unsafe text.withUnsafeMutableBytes { unsafe read(file.number, $0.baseAddress, $0.count) }
    return UInt16(decimalDigits: text.prefix(max(0, count)).prefix { $0 != 10 }).map { Int($0) } ?? 1024
  }
}
