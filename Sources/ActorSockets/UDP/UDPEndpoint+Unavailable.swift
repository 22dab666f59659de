// As in ByteStream+Unavailable.swift.

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension UDPEndpoint {
  @available(*, unavailable, message: "use bind(to: .port(5000))")
  public static func bind(port: UInt16) throws -> UDPEndpoint { try bind(to: .port(0)) }

  @available(*, unavailable, message: "use send(Array(text.utf8), to: address), or Datagram(utf8:to:)")
  public func send(_ text: String, to address: SocketAddress) async throws {}

  @available(*, unavailable, message: "use send(_:to:) with an Endpoint or a SocketAddress")
  public func send(_ bytes: [UInt8], host: String, port: UInt16) async throws {}
}
