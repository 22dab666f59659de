extension TCPListener {
  /// Stops serving, as ``StreamListener/drain(within:idleReads:)`` describes.
  ///
  /// *Ordering*: in the listener's isolation it takes effect at once, ahead of calls that wait in the queue.
  ///
  /// - Parameters:
  ///   - duration: How long the handlers may continue.
  ///   - idleReads: The idle reads that end; `nil` for what ``ServeOptions/drain`` says.
  public func drain(within duration: Duration, idleReads: Drain.IdleReads? = nil) {
    stopServing(within: duration, idleReads, claimPlaceNow())
  }

  /// Called by the methods of ``StreamListener``.
  public func _serve(_ request: _ServeRequest<TCPConnection>) async throws -> ServeReport { try await serve(request) }
}
