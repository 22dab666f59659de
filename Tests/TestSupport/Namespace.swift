package import EpollReactor
import Foundation
import Glibc
import SocketSystem

/// A network of its own, network_namespaces(7): sockets that are made in it are there wherever they are used afterwards.
///
/// It goes when the last socket in it and this object have gone.
package final class Namespace: Sendable {
  private let descriptor: Int32

  /// CLONE_NEWNET
  private static let kind: Int32 = 0x4000_0000

  /// The network of this process, which is that of its first thread.
  private static let home = Result {
    // A new thread inherits the network of the one that starts it. The default reactor outlives the test, so its thread starts before
    // any thread enters another network.
    _ = Reactor.ofProcess
    return try descriptor(of: "self")
  }

  /// A network without anything in it.
  package init() async throws {
    descriptor = try await onThread {
      let home = try Self.home.get()
      // Only for this thread.
      if unshare(Self.kind) != 0 { throw SystemError(call: "unshare", errno: errno) }
      defer { Self.leave(for: home) }
      return try Self.descriptor(of: "thread-self")
    }
  }

  /// The network of a thread in /proc.
  private static func descriptor(of thread: String) throws -> Int32 {
    // SAFETY: the path is valid for the call.
    let descriptor = unsafe open("/proc/\(thread)/ns/net", O_RDONLY | O_CLOEXEC)
    if descriptor < 0 { throw SystemError(call: "open", errno: errno) }
    return descriptor
  }

  deinit { close(descriptor) }

  /// How commands name it, for example `nsenter --net=…`.
  package var path: String { "/proc/\(getpid())/fd/\(descriptor)" }

  /// Runs a call that may block in this network, on a thread of its own.
  package func run<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
    try await onThread { try self.inside(body) }
  }

  /// Runs a call in this network, and puts the calling thread back into that of the process. The thread that resumes a task
  /// must not be in another network: if Dispatch starts a thread for the task, that thread inherits the network, and keeps it.
  package func inside<Value>(_ body: () throws -> Value) throws -> Value {
    let home = try Self.home.get()
    try enter()
    defer { Self.leave(for: home) }
    return try body()
  }

  private static func leave(for home: Int32) {
    if setns(home, kind) != 0 { fatalError("setns(2) failed with \(errno)") }
  }

  /// Puts the thread of a reactor into this network, for good. Names of interfaces are looked up on it.
  package func enter(_ reactor: Reactor) async throws {
    try await withCheckedThrowingContinuation { continuation in
      reactor.submit { continuation.resume(with: Result { try self.enter() }) }
    }
  }

  private func enter() throws {
    if setns(descriptor, Self.kind) != 0 { throw SystemError(call: "setns", errno: errno) }
  }

  /// Runs ip(8) in this network.
  package func ip(_ commands: String...) async throws { try await shell(commands.map { "ip " + $0 }) }

  /// Waits until an IPv6 address that was added receives packets. The kernel adds its local route some time after the command, also
  /// without duplicate address detection (nodad), and drops what comes before.
  package func receives(at address: String) async throws {
    try await eventually("packets to \(address) are received") {
      try await run { Self.succeeds("ip -6 route show table local | grep --quiet '^local \(address) '") }
    }
  }

  /// Runs commands of the shell in this network.
  package func shell(_ commands: [String]) async throws {
    try await run {
      for command in commands where !Self.succeeds(command) {
        throw Overdue(description: "\"\(command)\" failed")
      }
    }
  }

  private static func succeeds(_ command: String) -> Bool {
    // SAFETY: the text is valid for the call.
    unsafe system("PATH=$PATH:/usr/sbin:/sbin; \(command)") == 0
  }

  /// Two networks with a cable, veth(4): 192.0.2.1 at the first, 192.0.2.2 at the second. They know each other's hardware
  /// addresses, so that a cable that is pulled looks like a peer that is gone, and not like one that never was.
  package static func pair() async throws -> (Namespace, Namespace) {
    let near = try await Namespace()
    let far = try await Namespace()
    try await near.ip(
      "link add cable address 02:00:00:00:00:01 type veth peer name cable address 02:00:00:00:00:02 netns \(far.path)")
    for (namespace, own, other) in [(near, 1, 2), (far, 2, 1)] {
      try await namespace.ip(
        "address add 192.0.2.\(own)/24 dev cable", "link set cable up",
        "neighbour replace 192.0.2.\(other) lladdr 02:00:00:00:00:0\(other) dev cable nud permanent")
    }
    // The kernel brings the link up some time after the command. Packets that are sent before are lost.
    for namespace in [near, far] {
      try await eventually("the cable carries") {
        try await namespace.run { Self.succeeds("ip -o link show dev cable | grep --quiet 'state UP'") }
      }
    }
    return (near, far)
  }

  /// The number of keep-alive probes that were sent in the network of the calling thread: TCPKeepAlive of /proc/net/netstat.
  package static func keepAliveProbes() throws -> Int {
    let text = try String(contentsOfFile: "/proc/thread-self/net/netstat", encoding: .utf8)
    let rows = text.split(separator: "\n").filter { $0.hasPrefix("TcpExt:") }.map { $0.split(separator: " ") }
    guard rows.count == 2, let column = rows[0].firstIndex(of: "TCPKeepAlive"), let count = Int(rows[1][column]) else {
      throw Overdue(description: "this kernel does not count keep-alive probes")
    }
    return count
  }

  /// Pulls the cable. From now on no packet arrives, and no program is told.
  package func pullCable() async throws { try await ip("link set cable down") }

  /// Why no namespaces can be made here; `nil` if they can. It tries what the tests do with them.
  package static let obstacle: String? = {
    guard succeeds("ip -V >/dev/null 2>&1") else { return "ip is not installed: apt-get install iproute2" }
    guard succeeds("nft -v >/dev/null 2>&1") else { return "nft is not installed: apt-get install nftables" }
    // In processes of their own, so that the namespaces end with them.
    let tries = [
      ("true", "this process may not make network namespaces"),
      ("ip link add near type veth peer name far", "this process may not make veth interfaces"),
      ("nft add table inet filter", "this process may not make nftables rules"),
    ]
    return tries.first { !succeeds("unshare --net sh -c '\($0.0)' >/dev/null 2>&1") }?.1
  }()

  /// Why no namespaces with mounts of their own can be made here; `nil` if they can.
  package static let mountObstacle: String? =
    obstacle
    ?? {
      let mounts = "\(makeMountsPrivate); mount --bind /etc/passwd /etc/nsswitch.conf; \(endPrivateMounts)"
      if succeeds("\(unshareMounts) sh -e -c '\(mounts)' >/dev/null 2>&1") { return nil }
      return "this process may not mount files in a mount namespace of its own, or /etc/nsswitch.conf is missing"
    }()

  /// Starts a program in a network and a mount namespace of its own. By default unshare(1) would change the propagation of
  /// mounts below `/`, which fails in a chroot, where `/` is not a mount point.
  package static let unshareMounts = "unshare --net --mount --propagation unchanged"

  /// Keeps mounts below /etc from spreading to other namespaces. In a chroot, /etc is made a mount point for it.
  package static let makeMountsPrivate =
    "mount --make-rprivate / 2>/dev/null || { mount --bind /etc /etc && mount --make-private /etc; }"

  /// Undoes `makeMountsPrivate`: in a chroot, the mount of /etc may have spread.
  package static let endPrivateMounts = "mount --make-rprivate / 2>/dev/null || umount --lazy /etc"
}

// `import Glibc` does not bring these two, whose arguments and results are C ints.
@_silgen_name("unshare") private func unshare(_ flags: Int32) -> Int32
@_silgen_name("setns") private func setns(_ descriptor: Int32, _ kind: Int32) -> Int32
