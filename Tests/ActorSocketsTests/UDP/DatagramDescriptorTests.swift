import ActorSockets
import Glibc
import SocketSystem
import TestSupport
import Testing

/// Descriptors and credentials that go with the datagrams of unix sockets.
@Suite(.conformanceWithFaults, .endsInTime) struct DatagramDescriptorTests {
  /// An endpoint that receives up to this many descriptors with each datagram, and one that sends to it.
  private static func pair(
    receiving limit: Int, metadata: UDPEndpoint.Metadata = []
  ) async throws -> (receiver: UDPEndpoint, sender: UDPEndpoint) {
    let (sender, receiver, address) = try DatagramTransport.unix.pair {
      $0.descriptorsPerDatagram = limit
      $0.metadata = metadata
    }
    try await sender.connect(to: .address(address))
    return (receiver, sender)
  }

  /// Makes a datagram with descriptors. Each is the reading end of a pipe with one byte in it, the descriptor's number.
  private static func datagram(
    _ bytes: [UInt8], passing count: Int, from first: Int = 0, to address: SocketAddress? = nil
  ) throws -> Datagram {
    var datagram = Datagram(bytes, to: address)
    for index in first..<first + count {
      let ends = try pipeEnds()
      OwnedDescriptor(owning: ends.writing).writeByte(UInt8(truncatingIfNeeded: index))
      datagram.pass(OwnedDescriptor(owning: ends.reading))
    }
    return datagram
  }

  /// Takes all descriptors that came with a datagram, and returns their numbers.
  private static func numbers(_ datagram: Datagram) -> [UInt8?] {
    var numbers: [UInt8?] = []
    while let descriptor = datagram.takeDescriptor() {
      #expect(conformanceIsSimulated || fcntl(descriptor.number, F_GETFD) & FD_CLOEXEC != 0)
      numbers.append(descriptor.readByte())
    }
    return numbers
  }

  @Test func `The end of a pipe goes with a datagram, to a peer and to an address`() async throws {
    let (receiver, sender) = try await Self.pair(receiving: 1)
    for address in [nil, receiver.localAddresses[0]] {
      let ends = try pipeEnds()
      let reading = OwnedDescriptor(owning: ends.reading)
      try await sender.send([1, 2], passing: OwnedDescriptor(owning: ends.writing), to: address)
      let datagram = try await receiver.receive()
      #expect(datagram.bytes == [1, 2] && !datagram.lacksDescriptors)
      let taken = datagram.takeDescriptor()
      guard let writing = taken else { Issue.record("no descriptor came"); return }
      writing.writeByte(7)
      #expect(reading.readByte() == 7)
      let none = datagram.takeDescriptor() == nil
      #expect(none)
      _ = consume writing
      // This process's copy of the writing end is closed: the pipe ends.
      #expect(reading.readByte() == nil)
    }
  }

  @Test(.inRealTime) func `A descriptor that came with a datagram is closed before the closure runs`() async throws {
    let (receiver, sender) = try await Self.pair(receiving: 1)
    let ends = try pipeEnds()
    let reading = OwnedDescriptor(owning: ends.reading)
    try await sender.send([1], passing: OwnedDescriptor(owning: ends.writing))
    let number = reading.number
    try await receiver.withDatagrams { _, _ in
      var entry = pollfd(fd: number, events: Int16(POLLIN), revents: 0)
      // SAFETY: the call reads and writes one entry.
      #expect(unsafe poll(&entry, 1, 0) == 1 && entry.revents & Int16(POLLHUP) != 0)
    }
  }

  @Test func `Tasks with copies of one datagram take each descriptor once`() async throws {
    for _ in 0..<20 {
      let datagram = try Self.datagram([1], passing: 32)
      let taken = await withTaskGroup(of: [UInt8].self) { group in
        for _ in 0..<4 {
          group.addTask {
            var taken: [UInt8] = []
            while let descriptor = datagram.takeDescriptor() { taken += descriptor.readByte().map { [$0] } ?? [] }
            return taken
          }
        }
        return await group.reduce(into: []) { $0 += $1 }
      }
      #expect(taken.sorted() == Array(0..<32))
    }
  }

  @Test func `A loop closes the descriptors of a datagram with its last copy`() async throws {
    let (receiver, sender) = try await Self.pair(receiving: 1)
    let ends = try (0..<3).map { _ in try pipeEnds() }
    for (number, ends) in ends.enumerated() {
      try await sender.send([UInt8(number)], passing: OwnedDescriptor(owning: ends.writing))
    }
    var loop = receiver.datagrams
    for (number, ends) in ends.enumerated() {
      #expect(try await loop.next()?.bytes == [UInt8(number)])
      // The end of the pipe shows that no copy of the datagram is left.
      let hasEnded = OwnedDescriptor(owning: ends.reading).readByte() == nil
      #expect(hasEnded)
    }
  }

  @Test(arguments: [1, 2, 64, 253])
  func `Several descriptors keep their order`(count: UInt8) async throws {
    let (receiver, sender) = try await Self.pair(receiving: 253, metadata: [.peerCredentials, .timestamp])
    // An empty datagram can pass descriptors, too.
    for bytes in [[], [1]] as [[UInt8]] {
      try await sender.send(Self.datagram(bytes, passing: Int(count)))
      let datagram = try await receiver.receive()
      #expect(datagram.bytes == bytes && !datagram.lacksDescriptors)
      #expect(Self.numbers(datagram) == Array(0..<count))
    }
  }

  @Test func `Each datagram of a batch brings its own descriptors`() async throws {
    if conformanceIsSimulated { return try await expectNoDescriptors { try await Self.sendBatch() } }
    await #expect(processExitsWith: .success) { try await expectNoDescriptors { try await Self.sendBatch() } }
  }

  private static func sendBatch() async throws {
    let (receiver, sender) = try await Self.pair(receiving: 3)
    let receiving = Task {
      var all: [Datagram] = []
      while all.count < 100 { all += try await receiver.receive(upTo: 9) }
      return all
    }
    let sent = try (0..<100).map { try Self.datagram([UInt8($0)], passing: $0 % 4, from: $0) }
    try await sender.send(sent)
    for (index, datagram) in zip(UInt8(0)..., try await receiving.value) {
      #expect(datagram.bytes == [index])
      #expect(Self.numbers(datagram) == Array(index..<index + index % 4))
    }
    // The descriptors left with the first send.
    #expect(sent.allSatisfy { Self.numbers($0).isEmpty })
  }

  @Test func `Descriptors that are too many are closed and flagged, and the first are kept`() async throws {
    if conformanceIsSimulated { return try await expectNoDescriptors { try await Self.sendTooMany() } }
    await #expect(processExitsWith: .success) { try await expectNoDescriptors { try await Self.sendTooMany() } }
  }

  private static func sendTooMany() async throws {
    for metadata in [[], [.peerCredentials]] as [UDPEndpoint.Metadata] {
      let (receiver, sender) = try await Self.pair(receiving: 3, metadata: metadata)
      for count in [3, 4, 5, 60, 253] {
        try await sender.send(Self.datagram([9], passing: count))
        let datagram = try await receiver.receive()
        #expect(datagram.bytes == [9] && !datagram.isTruncated)
        #expect(datagram.lacksDescriptors == (count > 3))
        #expect(Self.numbers(datagram) == [0, 1, 2])
      }
    }
  }

  /// How a datagram is received whose descriptors the program does not get.
  private enum Way: CaseIterable { case receive, withMetadata, look, lookUnasked, lookWithMetadata, filter }

  @Test func `Descriptors that were not asked for are closed and flagged`() async throws {
    if conformanceIsSimulated { return try await expectNoDescriptors { try await Self.receiveAllUnasked() } }
    await #expect(processExitsWith: .success) { try await expectNoDescriptors { try await Self.receiveAllUnasked() } }
  }

  private static func receiveAllUnasked() async throws {
    for way in Way.allCases { try await Self.receiveUnasked(way) }
  }

  private static func receiveUnasked(_ way: Way) async throws {
    let limit = way == .look || way == .filter ? 9 : 0
    // With metadata there is room for control messages, and the kernel delivers descriptors in it.
    let metadata: UDPEndpoint.Metadata =
      way == .withMetadata || way == .lookWithMetadata ? [.peerCredentials, .timestamp] : []
    let (receiver, sender) = try await pair(receiving: limit, metadata: metadata)
    if way == .filter {
      await receiver.setReceiveFilter { datagram in datagram.bytes == [1] ? .drop : .pass }
    }
    let before = openDescriptors()
    for _ in 0..<50 {
      try await sender.send(datagram([1], passing: 5))
      try await sender.send([2])
      switch way {
      case .look, .lookUnasked, .lookWithMetadata:
        // `withDatagrams` does not keep descriptors.
        var count = 0
        while count < 2 { count += try await receiver.withDatagrams { _, _ in } }
      case .receive, .withMetadata:
        let datagram = try await receiver.receive()
        #expect(datagram.bytes == [1] && datagram.lacksDescriptors)
        #expect(numbers(datagram) == [])
        fallthrough
      case .filter:
        let next = try await receiver.receive()
        #expect(next.bytes == [2] && !next.lacksDescriptors)
      }
      #expect(openDescriptors() == before)
    }
  }

  @Test func `Descriptors of datagrams that are dropped unread are closed`() async throws {
    if conformanceIsSimulated { return try await expectNoDescriptors { try await Self.dropUnread() } }
    await #expect(processExitsWith: .success) { try await expectNoDescriptors { try await Self.dropUnread() } }
  }

  private static func dropUnread() async throws {
    let (receiver, sender) = try await Self.pair(receiving: 9)
    for _ in 0..<5 { try await sender.send(Self.datagram([1], passing: 9)) }
    // This fetches the other datagrams ahead.
    _ = try await receiver.receive()
    await receiver.close()
    await sender.close()
    _ = try Self.datagram([1], passing: 9)
  }

  @Test func `Descriptors of sends that fail, are dropped or are taken back are closed`() async throws {
    if conformanceIsSimulated { return try await expectNoDescriptors { try await Self.failAndTakeBack() } }
    await #expect(processExitsWith: .success) { try await expectNoDescriptors { try await Self.failAndTakeBack() } }
  }

  private static func failAndTakeBack() async throws {
    let (receiver, sender) = try await Self.pair(receiving: 1)
    let kept = try Self.datagram([1], passing: 1)
    // The datagram is too long, has too many descriptors, goes to a stranger, or is sent in a cancelled task.
    await expectError(.limitExceeded) {
      try await sender.send(Self.datagram(Array(repeating: 1, count: 70_000), passing: 1))
    }
    await expectError(.invalidArgument) { try await sender.send(Self.datagram([1], passing: 254)) }
    await expectError(.invalidArgument) {
      try await sender.send(Self.datagram([1], passing: 1, to: sender.localAddresses[0]))
    }
    let task = Task {
      try await eventually("it is cancelled") { Task.isCancelled }
      try await sender.send(kept)
    }
    task.cancel()
    await expectCancellation { try await task.value }
    // The send took the descriptor out and closed it.
    #expect(Self.numbers(kept) == [])
    // A filter drops the datagrams, which count as sent.
    await sender.setSendFilter { _ in .drop }
    try await sender.send(Self.datagram([1], passing: 3))
    try await sender.enqueueSend(Self.datagram([1], passing: 3)).value
    await sender.setSendFilter(nil)
    // The receiver's queue becomes full, so these datagrams wait.
    var waiting = 0
    while await sender.metrics.pendingSends == 0 {
      sender.enqueueSend(Datagram([0]))
      waiting += 1
    }
    let cancelled = Task.immediate { try await sender.send(Self.datagram([1], passing: 2)) }
    let batch = Task.immediate { try await sender.send((0..<5).map { try Self.datagram([$0], passing: 2) }) }
    let pending = try sender.enqueueSend(Self.datagram([1], passing: 2))
    let timed = Task.immediate {
      try await sender.send(Self.datagram([1], passing: 2), timeout: .within(.zero))
    }
    await expectError(.timedOut) { try await timed.value }
    cancelled.cancel()
    await expectCancellation { try await cancelled.value }
    pending.cancel()
    await expectCancellation { try await pending.value }
    await sender.close()
    await expectError(.closed) { try await batch.value }
    await expectError(.closed) { try await sender.send(Self.datagram([1], passing: 2)) }
    await receiver.close()
    #expect(waiting > 0)
  }

  @Test(arguments: [DatagramTransport.ipv4, .dualToIPv6])
  func `A UDP socket refuses to pass descriptors, and stays usable`(transport: DatagramTransport) async throws {
    let (sender, receiver, address) = try transport.pair {
      $0.descriptorsPerDatagram = 5
      $0.metadata = .peerCredentials
    }
    let error = await expectError(.invalidArgument) {
      try await sender.send(Self.datagram([1], passing: 1, to: address))
    }
    #expect(error.description.contains("only a unix socket"))
    try await sender.send([2], to: address)
    let datagram = try await receiver.receive()
    #expect(datagram.bytes == [2] && datagram.peerCredentials == nil && !datagram.lacksDescriptors)
  }

  @Test(arguments: [-1, 254])
  func `Binding refuses a number of descriptors that no datagram can have`(limit: Int) async {
    await expectError(.invalidArgument) { _ = try await Self.pair(receiving: limit) }
  }

  @Test(.inRealTime) func `A process without a free descriptor receives the datagram, flagged as lacking descriptors`()
    async
  {
    await #expect(processExitsWith: .success) {
      let (receiver, sender) = try await Self.pair(receiving: 9)
      try await sender.send([1])
      #expect(try await receiver.receive().bytes == [1])
      try await sender.send(Self.datagram([2], passing: 2))
      var before = rlimit()
      // SAFETY: the calls read or write one struct rlimit.
      unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &before)
      var limit = rlimit(rlim_cur: 3, rlim_max: before.rlim_max)
      unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
      let datagram = try await receiver.receive()
      unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &before)
      #expect(datagram.bytes == [2] && datagram.lacksDescriptors)
      let none = datagram.takeDescriptor() == nil
      #expect(none)
    }
  }

  // MARK: Credentials

  @Test(.inRealTime) func `Each datagram says who sent it, if that was asked for`() async throws {
    let own = PeerCredentials(processID: getpid(), userID: geteuid(), groupID: getegid())
    let (receiver, sender) = try await Self.pair(receiving: 1, metadata: [.peerCredentials, .timestamp])
    // More datagrams than fit into the receiver's queue.
    let sending = Task { try await sender.send((0..<20).map { Datagram([$0]) }) }
    for number in 0..<20 as Range<UInt8> {
      let datagram = try await receiver.receive()
      #expect(datagram.bytes == [number] && datagram.peerCredentials == own && datagram.timestamp != nil)
    }
    try await sending.value
    let (other, _) = try await Self.pair(receiving: 1)
    let plain = try DatagramTransport.unix.bind()
    try await plain.send([1], to: other.localAddresses[0])
    #expect(try await other.receive().peerCredentials == nil)
  }

  @Test(.inRealTime) func `A datagram has the credentials of its sender at the moment of sending`() async {
    await #expect(processExitsWith: .success) {
      let (receiver, sender) = try await Self.pair(receiving: 0, metadata: .peerCredentials)
      try await sender.send([1])
      #expect(try await receiver.receive().peerCredentials?.userID == getuid())
      if getuid() != 0 { return }
      // The kernel reports the real user and group, not the effective ones.
      #expect(setegid(65_531) == 0 && seteuid(65_532) == 0)
      try await sender.send([2])
      let before = try await receiver.receive().peerCredentials
      #expect(before == PeerCredentials(processID: getpid(), userID: 0, groupID: getgid()))
      #expect(seteuid(0) == 0 && setregid(65_533, 65_533) == 0 && setreuid(65_534, 65_534) == 0)
      try await sender.send([3])
      let after = try await receiver.receive().peerCredentials
      #expect(after == PeerCredentials(processID: getpid(), userID: 65_534, groupID: 65_533))
    }
  }
}
