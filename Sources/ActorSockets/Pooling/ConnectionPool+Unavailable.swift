// As in ByteStream+Unavailable.swift.

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension ConnectionPool {
  @available(*, unavailable, message: "use ConnectionPool(.with { $0.connections = 4 }) { … }")
  public init(connections: Int, connect: @escaping @Sendable () async throws -> Connection) {
    self.init(connect: connect)
  }
}
