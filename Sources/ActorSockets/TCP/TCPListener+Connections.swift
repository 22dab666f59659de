extension TCPListener {
  /// The connections of a listener. Each is accepted when the loop asks for it.
  public typealias Connections = ListenerConnections<TCPListener>

  /// The connections, one for each iteration of a `for` loop. The loop ends when the listener is closed.
  ///
  /// ```swift
  /// for try await connection in listener.connections { … }
  /// ```
  public nonisolated var connections: Connections { connections() }

  /// Returns the connections, one for each iteration of a `for` loop: see ``connections``.
  ///
  /// - Parameter timeout: The longest time to wait for each connection. When it expires, the loop throws `.timedOut`. A new loop
  ///   continues with the next connection. `nil` means no limit.
  /// - Returns: The connections.
  public nonisolated func connections(timeout: Timeout? = nil) -> Connections {
    Connections(listener: self, timeout: timeout)
  }
}
