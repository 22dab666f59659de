// As in ByteStream+Unavailable.swift.

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension UDPEndpoint {
  @available(*, unavailable, message: "use bind(to: .port(5000))")
  public static func bind(port: UInt16) throws -> UDPEndpoint { try bind(to: .port(0)) }

  @available(*, unavailable, message: "use send(utf8:to:), which sends the text as UTF-8")
  public func send(_ text: String, to address: SocketAddress) async throws {}

  @available(*, unavailable, message: "use send(_:to:) with an Endpoint or a SocketAddress")
  public func send(_ bytes: [UInt8], host: String, port: UInt16) async throws {}
}
