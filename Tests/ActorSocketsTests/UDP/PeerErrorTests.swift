import ActorSockets
import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

@Suite(.conformance, .endsInTime) struct PeerErrorTests {
  @Test(arguments: DatagramTransport.networks)
  func `A refusal ends nothing on an endpoint without a peer, and is told in errors`(
    transport: DatagramTransport
  ) async throws {
    let (client, server, good) = try transport.pair()
    let nobody = try await transport.deadAddress()
    let receiving = Task.immediate { try await client.receive() }
    for number in 0..<20 as Range<UInt8> {
      try await client.send([number], to: nobody)
      try await client.send([number], to: good)
      #expect(try await server.receive().bytes == [number])
    }
    let report = try #require(await client.errors.next())
    #expect(report.error.code == .connectionRefused && report.error.address == nobody, "\(report)")
    #expect(report.reporter?.isLoopback == true)
    try await server.send([1], to: transport.address(of: client))
    #expect(try await receiving.value.bytes == [1])
  }

  @Test(arguments: DatagramTransport.networks)
  func `A refusal is thrown by the next call of an endpoint with a peer, which lives on`(
    transport: DatagramTransport
  ) async throws {
    let nobody = try await transport.deadAddress()
    let client = try transport.bind()
    try await client.connect(to: .address(nobody))
    #expect(client.remoteAddress == nobody && client.isConnected)
    // To a call that waits.
    let looping = Task.immediate { for try await _ in client.datagrams {} }
    let receiving = Task.immediate { try await client.receive() }
    try await client.send([1])
    let error = await expectError(.connectionRefused) { _ = try await receiving.value }
    #expect(error.address == nobody)
    // To the next send.
    try await client.send([2])
    try await eventually("the next send is refused") {
      do {
        try await client.send([3])
        return false
      } catch let error as SocketError where error.code == .connectionRefused {
        return true
      }
    }
    var count = 0
    for await report in client.errors {
      #expect(report.error.code == .connectionRefused)
      count += 1
      if count == 2 { break }
    }
    // Somebody comes.
    let server = try UDPEndpoint.bind(to: .address(nobody))
    try await eventually("it arrives") {
      try? await client.send([4])
      return (try? await server.receive(timeout: .milliseconds(10))) != nil
    }
    await client.close()
    try await looping.value
  }

  @Test(arguments: [true, false])
  func `A refusal is heard by the first receive, wherever it is found`(isOnReactor: Bool) async throws {
    let rounds = 20
    var heard = 0
    for _ in 0..<rounds {
      let nobody = try await DatagramTransport.ipv4.deadAddress()
      let client = try await UDPEndpoint.connect(to: .address(nobody))
      // It may have got the port that is free again, and then is somebody.
      if client.localAddress == nobody { continue }
      heard += await withTaskExecutorPreference(isOnReactor ? Reactor.shared : nil) {
        do {
          try await client.send([1])
          _ = try await client.receive(timeout: .seconds(2))
          Issue.record("there is no peer that could answer")
        } catch let error as SocketError where error.code == .timedOut {
          // The kernel limits how much it reports. But what it did report has to be heard.
          await client.close()
          for await report in client.errors { Issue.record("\(report) was not heard") }
        } catch {
          #expect((error as? SocketError)?.code == .connectionRefused, "\(error)")
          return 1
        }
        return 0
      }
    }
    #expect(heard > 0, "no receive of \(rounds) heard of a refusal")
  }

  @Test(.inRealTime, arguments: DatagramTransport.networks)
  func `A refusal that ends a receive without time to wait does not time out the next one`(
    transport: DatagramTransport
  ) async throws {
    let reactor = Reactor()
    let (client, server) = (try transport.bind(reactor: reactor), try transport.bind(reactor: Reactor()))
    let peer = try transport.address(of: server)
    let address = try transport.address(of: client)
    try await client.connect(to: .address(peer))
    // The first datagram is answered before it is returned, which makes the kernel report that the peer is gone.
    await client.setReceiveFilter { [weak client] datagram in
      if datagram.bytes == [1] { client?.assumeIsolated { _ = try? $0.sendNow([9].span) } }
      return .pass
    }
    let first = Task.immediate { try await client.receive() }
    let immediate = Task.immediate { try await client.receive(timeout: .zero) }
    let last = Task.immediate { try await client.receive() }
    try await reactor.whileBlocked {
      try await server.send([1], to: address)
      await server.close()
    }
    #expect(try await first.value.bytes == [1])
    await expectError(.connectionRefused) { _ = try await immediate.value }
    let successor = try UDPEndpoint.bind(to: .address(peer))
    try await successor.send([2], to: address)
    #expect(try await last.value.bytes == [2])
  }

  @Test func `A peer is the only one that is heard and spoken to`() async throws {
    let (friend, client, address) = try DatagramTransport.ipv4.pair()
    let stranger = try DatagramTransport.ipv4.bind()
    // One that is fetched, and ones that wait in the kernel when the endpoint gets its peer.
    for number in 0..<40 as Range<UInt8> { try await stranger.send([number], to: address) }
    #expect(try await client.receive().bytes == [0])
    for number in 40..<50 as Range<UInt8> { try await stranger.send([number], to: address) }
    try await friend.send([100], to: address)
    try await client.connect(to: .address(friend.localAddresses[0]))
    #expect(try await client.receive().bytes == [100])
    try await stranger.send([50], to: address)
    try await friend.send([101], to: address)
    let next = try await client.receive()
    #expect(next.bytes == [101])
    let error = await expectError(.invalidArgument) { try await client.send([1], to: stranger.localAddresses[0]) }
    #expect("\(error)".contains("is connected to"))
    try await client.send([2], to: friend.localAddresses[0])
    try await client.send([3])
    #expect(try await friend.receive().bytes == [2])
    #expect(try await friend.receive().bytes == [3])
    // Another peer.
    try await client.connect(to: .address(stranger.localAddresses[0]))
    try await client.send([4])
    #expect(try await stranger.receive().bytes == [4])
    #expect(client.remoteAddress == stranger.localAddresses[0])
  }

  @Test(.inRealTime) func `Names are looked up when the send is called, and only the first waits`() async throws {
    let gate = Gate()
    let asked = Notes<String>()
    let time = ManualTime()
    let client = try DatagramTransport.ipv4.bind(on: time.reactor) {
      $0.resolver = ScriptedResolver { name, _ in
        asked.add(name)
        if name == "slow.example" { await gate.wait() }
        if name == "no.example" { throw SocketError(.hostNotFound, operation: "look up") }
        return [.ipv4(.loopback, port: 0)]
      }
    }
    let server = try DatagramTransport.ipv4.bind()
    let port = try #require(server.localAddresses[0].port)
    let slow = Task.immediate { try await client.send([1], to: .host("slow.example", port: port)) }
    let fast = Task.immediate { try await client.send([2], to: .host("fast.example", port: port)) }
    let none = Task.immediate { try await client.send([3], to: .host("no.example", port: port)) }
    let numeric = Task.immediate { try await client.send([4], to: .host("127.0.0.1", port: port)) }
    let late = Task.immediate {
      try await client.send([5], to: .host("slow.example", port: port), timeout: .within(.seconds(1)))
    }
    try await eventually("all are asked for") { asked.all.count == 4 }
    await time.advance(by: .seconds(1))
    await expectError(.timedOut) { try await late.value }
    #expect(await client.metrics.pendingSends == 4)
    gate.open()
    await expectError(.hostNotFound) { try await none.value }
    for number in [1, 2, 4] as [UInt8] { #expect(try await server.receive().bytes == [number]) }
    for task in [slow, fast, numeric] { try await task.value }
    await expectError(.invalidArgument) { try await client.send([1], to: .host("a\0b", port: 1)) }
    await expectError(.invalidArgument) { try await client.send([1], to: .host("slow.example", port: 0)) }
  }

  @Test(arguments: [AddressPreference.any, .ipv4Only, .ipv6Only, .preferIPv4])
  func `Connecting takes the first address that there is a way to`(preference: AddressPreference) async throws {
    var configuration = UDPEndpoint.Configuration()
    configuration.resolver = try StaticResolver(["both.example": ["::1", "127.0.0.1"]])
    configuration.addressPreference = preference
    let server = try UDPEndpoint.bind(to: .port(0))
    let port = try #require(server.localAddresses[0].port)
    let client = try await UDPEndpoint.connect(
      to: .host("both.example", port: port), configuration: configuration)
    let isIPv4 = preference == .ipv4Only || preference == .preferIPv4
    #expect(client.isIPv4 == isIPv4 && client.isIPv6 == !isIPv4)
    #expect(client.localAddress?.isLoopback == true)
    try await client.send([1])
    let datagram = try await server.receive()
    #expect(datagram.remoteAddress == client.localAddress)
    await expectError(.hostNotFound) {
      _ = try await UDPEndpoint.connect(to: .host("no.example", port: 1), configuration: configuration)
    }
  }

  @Test(.inRealTime) func `Connecting is cancelled and timed out while the name is looked up`() async throws {
    for isCancelled in [true, false] {
      let hasLeft = Gate()
      let time = ManualTime()
      let client = try DatagramTransport.ipv4.bind(on: time.reactor) {
        $0.resolver = ScriptedResolver { _, _ in
          await withTaskCancellationHandler {
            await hasLeft.wait()
          } onCancel: {
            hasLeft.open()
          }
          return []
        }
      }
      let connecting = Task.immediate { try await client.connect(to: .host("a.example", port: 1)) }
      let behind = Task.immediate { try await client.send([1], to: .ipv4(.loopback, port: 9)) }
      try await client.hasPending(sends: 2)
      if isCancelled {
        connecting.cancel()
        await #expect(throws: CancellationError.self) { try await connecting.value }
      } else {
        await time.advance(by: .seconds(30))
        await expectError(.timedOut) { try await connecting.value }
      }
      try await behind.value
      await hasLeft.wait()
      #expect(!client.isConnected)
    }
  }
}
