import ActorSockets

// The code of the article about what a program can see of its connections.

func describe(_ connection: TCPConnection) async throws {
  for operation in await connection.pendingOperations {
    print(operation)  // read exactly 10 bytes: 4 of 10 bytes done, for 2.5 seconds
  }
  if let tcp = await connection.metrics.tcp {
    print(tcp.roundTripTime, tcp.totalRetransmissions, tcp.deliveryRate ?? 0)
  }
}

func record(_ configuration: inout TCPConnection.Configuration) throws {
  let capture = try PacketCapture(path: "trouble.pcapng")
  configuration.capture = capture
}

func prepare(_ configuration: inout TCPConnection.Configuration) {
  configuration.prepare = { socket in
    try socket.set(.typeOfService, to: .expeditedForwarding)
    try socket.set(.bindToDevice, to: "eth1")
  }
}
