public import ActorSockets
internal import EpollReactor

extension ByteStream {
  /// Encrypts the stream from here on: STARTTLS.
  ///
  /// ```swift
  /// try await connection.write(utf8: "STARTTLS\r\n")
  /// let answer = try await connection.read(until: .crlf)
  /// let secure = connection.startTLS(context, as: .client(serverName: "mail.example.com"))
  /// try await secure.write(utf8: "EHLO me.example.org\r\n")
  /// ```
  ///
  /// The call returns at once. Reads and writes on the returned connection queue until the handshake is done.
  ///
  /// From now on the operations of this stream throw `.upgraded`. Its `abort()`, `closed`, addresses and metrics
  /// continue to work; the metrics count ciphertext. Its `close()` closes the encrypted connection.
  ///
  /// Bytes that arrived before the handshake and that no read has taken were sent in plain text, perhaps by an attacker
  /// between the two ends. By default they fail the handshake with ``TLSError/Code/plaintextBeforeTLS``.
  ///
  /// *Ordering*: The call takes a place in both queues, in the order of the calls, from any thread. The handshake
  /// begins when all earlier reads and writes are done. If an earlier enqueued read fails, the handshake fails with
  /// `.precedingReadFailed`.
  ///
  /// *Errors* are thrown by the operations of the returned connection.
  ///
  /// - Parameters:
  ///   - context: The certificates, trust roots and other settings.
  ///   - role: The side of the handshake that this stream takes.
  ///   - bufferedBytes: The treatment of bytes that arrived before the handshake. By default they are refused.
  /// - Returns: The encrypted connection, which owns this stream.
  public nonisolated func startTLS(
    _ context: TLSContext, as role: TLSRole, bufferedBytes: EarlyBytes = .refused
  ) -> TLSConnection {
    let connection = TLSConnection(over: self, context, as: role, bufferedBytes)
    submit { connection.attach(to: $0.core) }
    return connection
  }
}

extension ByteStream {
  /// Encrypts the stream from here on, as a client of the server at an endpoint: STARTTLS.
  ///
  /// It is ``startTLS(_:as:bufferedBytes:)`` with the role of a client, and ``Endpoint/serverName`` as the name of the server.
  /// *Ordering* and *errors* are those of that method.
  ///
  /// - Parameters:
  ///   - context: The certificates, trust roots and other settings.
  ///   - endpoint: The server, as it was given to `connect`.
  ///   - bufferedBytes: The treatment of bytes that arrived before the handshake. By default they are refused.
  /// - Returns: The encrypted connection, which owns this stream.
  public nonisolated func startTLS(
    _ context: TLSContext, to endpoint: Endpoint, bufferedBytes: EarlyBytes = .refused
  ) -> TLSConnection {
    startTLS(context, as: .client(serverName: endpoint.serverName), bufferedBytes: bufferedBytes)
  }
}

extension TLSConnection {
  /// Connects and performs the handshake.
  ///
  /// *Cancellation* aborts the connection and throws `CancellationError`. *Ordering*: concurrent calls connect in no
  /// particular order.
  ///
  /// - Parameters:
  ///   - endpoint: The server.
  ///   - context: The certificates, trust roots and other settings. With `nil`, the server's certificate is verified with the system's
  ///     roots, and sessions are not resumed: for clients that connect often, make a context and pass it to each call.
  ///   - serverName: The name or IP address that the server's certificate must be for; `nil` for the name in the
  ///     endpoint. A unix endpoint contains no name.
  ///   - configuration: The settings of the TCP connection.
  ///   - timeout: How long connecting may take in total: the look-up of the name, the proxy, all tries, and the handshake. `nil` for the
  ///     configuration's timeout, 30 seconds by default. The handshake also has its own limit,
  ///     ``TLSConfiguration/handshakeTimeout``.
  ///   - reactor: The reactor that runs the connection.
  /// - Returns: The connection, after the handshake.
  /// - Throws: ``TLSError`` if the handshake fails; ``SocketError`` with `.timedOut` if the time is over, and as
  ///   ``TCPConnection/connect(to:configuration:timeout:reactor:)``; `CancellationError`.
  @_optimize(none)
  // An optimised build would not return to the caller's isolation: see Docs/Toolchain.md.
  public static func connect(
    to endpoint: Endpoint, context: TLSContext? = nil, serverName: String? = nil,
    configuration: TCPConnection.Configuration = .init(), timeout: Timeout? = nil, reactor: Reactor = .shared
  ) async throws -> TLSConnection {
    let name = serverName ?? endpoint.serverName
    let context = try context ?? TLSContext.standard
    let timeout = timeout ?? .within(configuration.connectTimeout)
    let started = reactor.now
    let plain = try await TCPConnection.connect(
      to: endpoint, configuration: configuration, timeout: timeout, reactor: reactor)
    let connection = plain.startTLS(context, as: .client(serverName: name))
    do {
      try await connection.handshake(within: timeout, startedAt: started)
      return connection
    } catch is CancellationError {
      await connection.abort()
      throw CancellationError()
    }
  }
}

extension Endpoint {
  /// The name or address that a server's certificate must be for, as ``TLSRole/client(serverName:)`` takes it; empty if
  /// the endpoint does not contain a name.
  public var serverName: String {
    switch self {
    case .host(let name, _): Self.nameForPeers(name)
    case .address(.ipv4(let address, _)): "\(address)"
    // Certificates do not contain an interface.
    case .address(.ipv6(let address, _)): ServerName.withoutScope("\(address)")
    case .address(.unix), .unix: ""
    }
  }
}
