public import ActorSockets
internal import EpollReactor

extension QueuedByteStream {
  /// Encrypts the stream from here on: STARTTLS.
  ///
  /// ```swift
  /// try await connection.write(utf8: "STARTTLS\r\n")
  /// let answer = try await connection.read(until: .crlf)
  /// let secure = connection.startTLS(context, as: .client(serverName: "mail.example.com"))
  /// try await secure.write(utf8: "EHLO me.example.org\r\n")
  /// ```
  ///
  /// It is an entry in both queues: the handshake begins when all reads and writes before it are done. It returns at once; what is
  /// read and written on the connection that it returns queues until the handshake is done. This stream takes no operation
  /// any more, they throw `.upgraded`; its `abort()`, `closed`, addresses and metrics go on, the latter of what is moved in
  /// ciphertext, and its `close()` is the encrypted one's.
  ///
  /// Bytes that arrived before the handshake and that nobody read were sent in plain text, perhaps by somebody in between: they
  /// are the error `.plaintextBeforeTLS`.
  ///
  /// *Ordering*: the order of the calls is the order of the queue, from any thread. *Errors*: if a read that is enqueued before
  /// it fails, so does this, with `.precedingReadFailed`; all errors are thrown by the operations of the connection that it returns.
  ///
  /// - Parameters:
  ///   - context: Certificates, trust and so on.
  ///   - role: Which side this is.
  ///   - bufferedBytes: What happens to bytes that arrived before the handshake.
  /// - Returns: The encrypted connection, which owns this stream.
  public nonisolated func startTLS(
    _ context: TLSContext, as role: TLSRole, bufferedBytes: EarlyBytes = .refused
  ) -> TLSConnection {
    let connection = TLSConnection(over: self, context, as: role, bufferedBytes)
    submit { connection.attach(to: $0.core) }
    return connection
  }
}

extension TLSConnection {
  /// Connects and shakes hands.
  ///
  /// *Cancellation* stops it and throws `CancellationError`.
  ///
  /// - Parameters:
  ///   - endpoint: Where to.
  ///   - context: Certificates, trust and so on.
  ///   - serverName: The name or IP address that the server's certificate must be for; `nil` for the endpoint's. A unix endpoint has
  ///     none of its own.
  ///   - configuration: What the connection beneath does differently.
  ///   - timeout: How long connecting may take; `nil` for the configuration's 30 seconds. The handshake has a limit of its own,
  ///     ``TLSConfiguration/handshakeTimeout``.
  ///   - reactor: Where the connection's code runs.
  /// - Returns: The connection, which is up.
  /// - Throws: ``TLSError``, ``SocketError`` as ``TCPConnection/connect(to:configuration:timeout:reactor:)``, and `CancellationError`.
  public static func connect(
    to endpoint: Endpoint, context: TLSContext, serverName: String? = nil,
    configuration: TCPConnection.Configuration = .init(), timeout: Timeout? = nil, reactor: Reactor = .shared
  ) async throws -> TLSConnection {
    let name = serverName ?? endpoint.serverName
    let plain = try await TCPConnection.connect(
      to: endpoint, configuration: configuration, timeout: timeout, reactor: reactor)
    let connection = plain.startTLS(context, as: .client(serverName: name))
    do {
      try await connection.handshake()
      return connection
    } catch is CancellationError {
      await connection.abort()
      throw CancellationError()
    }
  }

  /// Encrypts a stream of any kind.
  ///
  /// For the streams of this package it is the same as ``QueuedByteStream/startTLS(_:as:bufferedBytes:)``. Any other one must
  /// leave its bytes to the connection from now on: they are read and written by its public methods, by tasks.
  ///
  /// - Parameters:
  ///   - stream: What carries the bytes.
  ///   - context: Certificates, trust and so on.
  ///   - role: Which side this is.
  /// - Returns: The connection, whose operations queue until the handshake is done.
  public static func over(_ stream: any ByteStream, context: TLSContext, as role: TLSRole) -> TLSConnection {
    if let stream = stream as? any QueuedByteStream { return stream.startTLS(context, as: role) }
    let connection = TLSConnection(over: stream, context, as: role, .refused)
    connection.submit { $0.attach(to: ForeignCarrier(stream)) }
    return connection
  }
}

extension Endpoint {
  /// What the certificate of a server at this endpoint must be for; nothing if that is for somebody else to say.
  package var serverName: String {
    switch self {
    case .host("", _): "localhost"
    case .host(let name, _): name
    case .address(.ipv4(let address, _)): "\(address)"
    // No certificate knows an interface.
    case .address(.ipv6(let address, _)): String("\(address)".prefix { $0 != "%" })
    case .address(.unix), .unix: ""
    }
  }
}
