import Glibc
import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

/// Receiving in a process that may not have as many descriptors as it is passed.
@Suite struct PassingLimitTests {
  @Test func `A receiver with few free descriptors gets the same as on Linux`() async {
    // The limit is that of a whole process.
    await #expect(processExitsWith: .success) {
      for free in 0...4 {
        let linux = try Self.receive { try Self.withFree(free, $0) }
        let network = SimulatedNetwork(now: 0, seed: 1)
        let host = network.addHost("host")
        let simulated = try CurrentSystem.using(SystemHolder(network)) {
          try Self.receive { body in
            let used = network.kernel(of: host)?.nextNumber ?? 0
            network.limit(host, to: HostLimits(descriptors: used + free))
            defer { network.limit(host, to: HostLimits(descriptors: 1_000)) }
            try body()
          }
        }
        #expect(linux == simulated, "\(free) descriptors are free")
      }
    }
  }

  /// Receives one descriptor through a stream and three with a datagram. `limited` runs each receive with a limit.
  private static func receive(_ limited: (() throws -> Void) throws -> Void) throws -> [String] {
    var lines: [String] = []
    let ends = try socketEnds()
    let reading = OwnedDescriptor(owning: ends.reading)
    let writing = OwnedDescriptor(owning: ends.writing)
    let inbox = DescriptorInbox(maximum: 5)
    let memory = ScratchMemory(count: 100)
    let source = reading.socket
    _ = writing.socket.send([1, 2].span, passing: writing)
    try limited { lines.append(memory.receive(from: source, inbox).outcome) }
    // If the descriptor was lost, this says so.
    lines.append("\(inbox.count) descriptors, then \(memory.receive(from: source, inbox).outcome)")

    let receiver = try OwnedDescriptor.datagramSocket(family: SocketKind.unix)
    try receiver.socket.bind(to: .unix(.unnamed))
    let passed = DescriptorBundle()
    for _ in 0..<3 { passed.append(try OwnedDescriptor.datagramSocket(family: SocketKind.unix)) }
    guard let batch = DatagramBatch() else { return [] }
    _ = batch.add([1].span, to: try receiver.socket.localAddress(), nil, isIPv6: false, passing: passed)
    lines.append("\(try batch.send(on: receiver.socket))")
    let target = receiver.socket
    try limited {
      let count = try batch.receive(from: target, atMost: 1, size: 9, withMetadata: false, descriptors: 3)
      let (kept, someAreLost) = batch.takeDescriptors(0, atMost: 3)
      lines.append("\(count) datagrams, \(kept?.numbers.count ?? 0) descriptors, some are lost: \(someAreLost)")
    }
    return lines
  }

  private static func withFree(_ free: Int, _ body: () throws -> Void) throws {
    var limit: Int32 = 0
    var left = free
    // SAFETY: the calls read or write one struct rlimit, and fcntl only asks.
    while true {
      if fcntl(limit, F_GETFD) < 0 {
        if left == 0 { break }
        left -= 1
      }
      limit += 1
    }
    var before = rlimit()
    unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &before)
    var lower = rlimit(rlim_cur: rlim_t(limit), rlim_max: before.rlim_max)
    unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &lower)
    defer { unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &before) }
    try body()
  }
}
