// As in ByteStream+Unavailable.swift.

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension TCPConnection {
  @available(*, unavailable, message: "use connect(to: .host(\"example.com\", port: 80))")
  public static func connect(host: String, port: UInt16) async throws -> TCPConnection {
    try await connect(to: .port(0))
  }

  @available(*, unavailable, message: "use connect(to: .host(\"example.com\", port: 80))")
  public static func connect(to host: String, port: UInt16) async throws -> TCPConnection {
    try await connect(to: .port(0))
  }

  @available(*, unavailable, message: "use connect(to: Endpoint(parsing: \"example.com:80\")), or .host(_:port:)")
  public static func connect(to endpoint: String) async throws -> TCPConnection { try await connect(to: .port(0)) }
}

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension TCPListener {
  @available(*, unavailable, message: "use bind(to: .port(80)), or an Endpoint of another kind")
  public static func bind(port: UInt16) throws -> TCPListener { try bind(to: .port(0)) }

  @available(*, unavailable, message: "use bind(to: .port(80))")
  public static func bind(to port: UInt16) throws -> TCPListener { try bind(to: .port(0)) }

  @available(
    *, unavailable, message: "bind(to:) listens at once; then call serve(_:handler:), or accept connections in a loop"
  )
  public func listen() {}
}
