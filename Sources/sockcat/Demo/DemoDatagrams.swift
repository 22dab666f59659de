import ActorSockets

extension Demo {
  func datagrams() async throws {
    let server = try UDPEndpoint.bind(to: .host("127.0.0.1", port: 0))
    let serving = Task {
      for try await question in server.datagrams {
        try await server.send(question.reply(question.bytes.reversed()))
      }
    }
    let client = try await UDPEndpoint.connect(to: .address(server.localAddresses[0]))
    for text in ["stressed", "two\nlines", ""] {
      try await client.send(Array(text.utf8))
      let answer = try await client.receive(timeout: .seconds(10))
      let back = String(decoding: answer.bytes, as: UTF8.self)
      try await say("sent \(text.debugDescription); \(answer.bytes.count) bytes came back: \(back.debugDescription)")
      try check(answer.bytes == Array(text.utf8).reversed(), "the answer differs")
    }
    await server.close()
    try await serving.value
    try await say("the server is closed, and its loop has ended")
    do {
      try await client.send([1])
      _ = try await client.receive(timeout: .seconds(10))
      try check(false, "a datagram was answered")
    } catch let error as SocketError {
      try await say("one more datagram, and the kernel reports: \(error)")
      try check(error.code == .connectionRefused, "the error differs")
    }
    await client.close()
  }

  func multicast() async throws {
    let group = IPAddress.ipv4(IPv4Address(239, 255, 17, 4))
    var configuration = UDPEndpoint.Configuration()
    // This allows several endpoints to bind to the port.
    configuration.reuseAddress = true
    configuration.metadata = .localAddress
    var members: [(name: String, endpoint: UDPEndpoint)] = []
    var port: UInt16 = 0
    for name in ["ada", "bob"] {
      let member = try UDPEndpoint.bind(to: .address(.ipv4(.any, port: port)), configuration: configuration)
      port = member.localAddresses[0].port ?? 0
      try await member.join(group, on: "lo")
      members.append((name, member))
    }
    let sender = try UDPEndpoint.bind(to: .address(.ipv4(.any, port: 0)))
    try await sender.setMulticastInterface("lo")
    try await say("ada and bob join \(group) on the interface lo, both on port \(port)")
    try await sender.send(Array("to all of you".utf8), to: group.socketAddress(port: port))
    for (name, member) in members {
      let datagram = try await member.receive(timeout: .seconds(10))
      let text = String(decoding: datagram.bytes, as: UTF8.self)
      let target = datagram.localAddress.map { "\($0)" } ?? "an unknown address"
      try await say("\(name) receives \(text.debugDescription), sent to \(target)")
      try check(text == "to all of you" && datagram.localAddress == group, "the datagram differs")
    }
    try await members[0].endpoint.leave(group, on: "lo")
    try await sender.send(Array("who is left?".utf8), to: group.socketAddress(port: port))
    _ = try await members[1].endpoint.receive(timeout: .seconds(10))
    try check(await members[0].endpoint.metrics.datagramsReceived == 1, "a former member received it too")
    try await say("ada leaves; the next datagram reaches only bob")
    for (_, member) in members { await member.close() }
    await sender.close()
  }
}
