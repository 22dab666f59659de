import ActorSockets
import Glibc
import SocketSystem
import TestSupport
import Testing

/// What goes along with datagrams, filters, unix sockets, and binding.
@Suite(.conformance) struct DatagramMetadataTests {
  @Test(arguments: DatagramTransport.networks)
  func `Chosen metadata comes with each datagram, and can be sent along`(transport: DatagramTransport) async throws {
    try await within("they arrive") {
      var configuration = UDPEndpoint.Configuration()
      configuration.metadata = [.localAddress, .trafficClass, .hopLimit, .timestamp]
      let server = try transport.bind(configuration: configuration)
      let client = try transport.bind()
      let address = try transport.address(of: server)
      var before = timespec()
      // SAFETY: the call fills in one such value.
      unsafe clock_gettime(CLOCK_REALTIME, &before)
      try await client.send([1], to: address)
      let plain = try await server.receive()
      #expect(plain.localAddress == IPAddress(address))
      #expect(plain.interfaceIndex == 1)
      #expect(plain.hopLimit == 64 && plain.trafficClass == .bestEffort)
      let time = try #require(plain.timestamp)
      #expect(time >= .seconds(before.tv_sec) && time < .seconds(before.tv_sec + 600))

      var special = Datagram([2], to: address)
      special.trafficClass = TrafficClass(rawValue: TrafficClass.expeditedForwarding.rawValue | 1)
      special.hopLimit = 7
      try await client.send(special)
      let marked = try await server.receive()
      #expect(marked.hopLimit == 7)
      #expect(marked.trafficClass?.codePoint == 46 && marked.trafficClass?.congestion == 1)
      // Several at once, and each with its own.
      try await client.send(
        (1...20).map { number in
          var datagram = Datagram([UInt8(number)], to: address)
          datagram.hopLimit = UInt8(number)
          return datagram
        })
      var all: [Datagram] = []
      while all.count < 20 { all += try await server.receive(upTo: 20) }
      let limits: [UInt8?] = Array(1...20)
      #expect(all.map(\.hopLimit) == limits)
      try await server.send(marked.reply([3]))
      #expect(try await client.receive().remoteAddress == address)
    }
  }

  @Test func `An answer comes from the address that was asked`() async throws {
    try await within("they arrive") {
      var configuration = UDPEndpoint.Configuration()
      configuration.metadata = .localAddress
      for reactor in [Reactor.shared] {
        let server = try UDPEndpoint.bind(to: .port(0), configuration: configuration, reactor: reactor)
        let port = try #require(server.localAddresses[0].port)
        let client = try DatagramTransport.ipv4.bind()
        for host in ["127.0.0.1", "127.0.0.2", "127.9.8.7"] {
          let address = SocketAddress.ipv4(try #require(IPv4Address(host)), port: port)
          try await client.send([1], to: address)
          try await server.send(server.receive().reply([2]))
          #expect(try await client.receive().remoteAddress == address)
        }
        await client.close()
      }
    }
  }

  @Test func `Without being asked for, nothing comes along`() async throws {
    let (server, client) = try (DatagramTransport.ipv4.bind(), DatagramTransport.ipv4.bind())
    try await client.send([1], to: server.localAddresses[0])
    let datagram = try await server.receive()
    #expect(datagram.localAddress == nil && datagram.hopLimit == nil && datagram.trafficClass == nil)
    #expect(datagram.timestamp == nil && datagram.interfaceIndex == 0 && datagram.annotation == nil)
  }

  @Test func `Filters drop, change and annotate`() async throws {
    try await within("they arrive") {
      var configuration = UDPEndpoint.Configuration()
      configuration.receiveFilter = { datagram in
        if datagram.bytes.first == 1 { return .drop }
        datagram.annotation = datagram.bytes.count
        datagram.bytes.append(99)
        return .pass
      }
      let server = try DatagramTransport.ipv4.bind(configuration: configuration)
      configuration = UDPEndpoint.Configuration()
      configuration.sendFilter = { datagram in
        if datagram.bytes.first == 2 { return .drop }
        datagram.bytes.append(98)
        return .pass
      }
      let client = try DatagramTransport.ipv4.bind(configuration: configuration)
      let address = server.localAddresses[0]
      let receiving = Task.immediate {
        var all: [Datagram] = []
        for try await datagram in server.datagrams {
          all.append(datagram)
          if all.count == 3 { break }
        }
        return all
      }
      // More than one turn's worth of those that are dropped.
      for round in 1...20 {
        try await client.send((0..<30).map { _ in Datagram([1], to: address) })
        try await eventually("they are dropped") { await server.metrics.datagramsFiltered == UInt64(round) * 30 }
      }
      try await client.send([2], to: address)
      try await client.enqueueSend(Datagram([2], to: address)).value
      try await client.send([Datagram([3], to: address), Datagram([2], to: address), Datagram([4], to: address)])
      try await client.enqueueSend(Datagram([5], to: address)).value
      for (number, datagram) in zip([3, 4, 5] as [UInt8], try await receiving.value) {
        #expect(datagram.bytes == [number, 98, 99] && datagram.annotation as? Int == 2)
      }
      #expect(await client.metrics.datagramsFiltered == 3)
      await client.setSendFilter(nil)
      await server.setReceiveFilter(nil)
      try await client.send([1], to: address)
      #expect(try await server.receive().bytes == [1])
    }
  }

  @Test(.inRealTime)
  func `A unix endpoint removes its file, and replaces only a file that no program has open`() async throws {
    try await within("they arrive") {
      let folder = try SocketFolder()
      let path = folder()
      var configuration = UDPEndpoint.Configuration()
      configuration.permissions = 0o600
      let server = try UDPEndpoint.bind(to: .unix(path: path), configuration: configuration)
      #expect(FileFacts(path)?.permissions == 0o600)
      await expectError(.addressInUse) { _ = try UDPEndpoint.bind(to: .unix(path: path)) }
      let client = try await UDPEndpoint.connect(to: .unix(path: path))
      try await client.send([1])
      let question = try await server.receive()
      try await server.send(question.reply([2]))
      #expect(try await client.receive().bytes == [2])
      // One without a name can be heard, but not answered.
      let nameless = RawSocket(owning: socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0))
      _ = try BorrowedDescriptor(nameless.number).connect(to: .unix(UnixPath(parsing: path)))
      try nameless.send([3])
      let unanswerable = try await server.receive()
      #expect(unanswerable.bytes == [3] && unanswerable.remoteAddress == nil)
      try await server.send(unanswerable.reply([4]))
      #expect(await server.metrics.datagramsUndelivered == 1)
      await server.close()
      #expect(FileFacts(path) == nil)
      await expectError(.connectionRefused) { try await client.send([5]) }

      try RawSocket.bound(to: path, type: SOCK_DGRAM).close()
      try await eventually("nobody has it open") { (try? UDPEndpoint.bind(to: .unix(path: path))) != nil }
      let stream = try RawSocket.listening(on: .unix(UnixPath(parsing: folder("stream"))))
      let other = try UDPEndpoint.bind(to: .unix(path: "@\(path)"))
      await expectError(.pathNotFound) { try await other.send([5], to: .unix(path: folder("none"))) }
      await expectError(.invalidArgument) { try await other.send([5], to: .unix(UnixPath(parsing: ""))) }
      let error = await expectError(.system) { try await other.send([1], to: .unix(path: folder("stream"))) }
      #expect("\(error)".contains("is not a datagram socket"))
      withExtendedLifetime(stream) {}
    }
  }

  @Test(.inRealTime) func `Descriptors that the program did not ask for are closed`() async {
    await #expect(processExitsWith: .success) {
      try await expectNoDescriptors {
        var configuration = UDPEndpoint.Configuration()
        for metadata in [UDPEndpoint.Metadata(), .timestamp] {
          configuration.metadata = metadata
          let server = try UDPEndpoint.bind(to: .unix(path: ""), configuration: configuration)
          let raw = RawSocket(owning: socket(AF_UNIX, Int32(SOCK_DGRAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0))
          _ = try BorrowedDescriptor(raw.number).connect(to: server.localAddresses[0])
          for round in 0..<10 {
            let passed = OwnedDescriptor(owning: dup(raw.number))
            _ = BorrowedDescriptor(raw.number).send([UInt8(round)].span, passing: passed)
            if round % 2 == 0 {
              #expect(try await server.receive().bytes == [UInt8(round)])
            } else {
              try await server.withDatagrams { bytes, _ in #expect(bytes[0] == UInt8(round)) }
            }
          }
          await server.close()
        }
      }
    }
  }

  @Test func `Endpoints bind to what they are told`() async throws {
    let both = try UDPEndpoint.bind(to: .host("localhost", port: 0))
    #expect(both.localAddresses.count == 2 && Set(both.localAddresses.map(\.port)).count == 1)
    #expect(both.isIPv4 && both.isIPv6)
    let client = try UDPEndpoint.bind()
    for address in both.localAddresses {
      try await client.send([1], to: address)
      let datagram = try await both.receive()
      try await both.send(datagram.reply([2]))
      #expect(try await client.receive().remoteAddress == address)
    }
    var configuration = UDPEndpoint.Configuration()
    configuration.addressPreference = .ipv4Only
    let four = try UDPEndpoint.bind(configuration: configuration)
    #expect(four.isIPv4 && !four.isIPv6)
    configuration.addressPreference = .ipv6Only
    let six = try UDPEndpoint.bind(configuration: configuration)
    #expect(!six.isIPv4 && six.isIPv6)
    await expectError(.addressInUse) { _ = try UDPEndpoint.bind(to: .address(both.localAddresses[0])) }
    await expectError(.hostNotFound) { _ = try UDPEndpoint.bind(to: .host("no-such-interface", port: 0)) }
    configuration = UDPEndpoint.Configuration()
    configuration.reusePort = true
    let shared = try UDPEndpoint.bind(to: .port(0), configuration: configuration)
    _ = try UDPEndpoint.bind(to: .port(shared.localAddresses[0].port ?? 0), configuration: configuration)
    struct No: Error {}
    configuration.prepare = { _ in throw No() }
    await expectError(.rejected) { _ = try UDPEndpoint.bind(configuration: configuration) }
    await expectError(.permissionDenied) { try await client.send([1], to: .ipv4(.broadcast, port: 9)) }
    #expect(try await client.get(.receiveBufferSize) > 0)
    #expect(try await client.withFileDescriptor { $0 } >= 0)
    #expect("\(client)".contains("\(client.id)"))
  }
}
