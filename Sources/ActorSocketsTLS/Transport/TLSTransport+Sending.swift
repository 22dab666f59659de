internal import ActorSockets
internal import SocketSystem

// How plaintext leaves through the engine and the carrier. See `TLSTransport`, and `TLSSendState` for its decisions.

extension TLSTransport {
  /// The most plaintext that one call encrypts: less than a socket's budget, so that the write after it begins in the same run.
  private static let longestSend = 65_536
  /// A full record.
  private static let fullRecord = 16_384

  var unsentCiphertext: Int { (engine?.outputCount ?? 0) + sending.lostBytes }
  var unacknowledgedBytes: Int { (carrier?.unacknowledgedBytes ?? 0) + unsentCiphertext }

  func send(_ bytes: Span<UInt8>) -> Transfer {
    guard phase == .up, receiving.ending != .failed else {
      return .failed(SystemError(call: "SSL_write", errno: Errno.notConnected))
    }
    let result = engine?.write(bytes.extracting(first: min(bytes.count, Self.longestSend)), to: self)
    if let error = takeCarrierError() {
      receiveLastAlert()
      return .failed(error)
    }
    switch result {
    case .success(let count):
      let isBlocked = engine?.hasOutput != false
      return sending.wrote(count, of: bytes.count, isBlocked: isBlocked) ? .bytes(count) : .wouldBlock
    case .failure(let error):
      failure = SocketError(layer: error, operation: "write")
      return .failed(SystemError(call: "SSL_write", errno: Errno.protocolError))
    case nil:
      return .failed(SystemError(call: "SSL_write", errno: Errno.notConnected))
    }
  }

  func send(gathering pieces: ArraySlice<[UInt8]>, skipping offset: Int) -> Transfer {
    var gathered: [UInt8] = []
    var skipped = offset
    for piece in pieces {
      let rest = piece.span.extracting(skipped..<piece.count)
      // A piece that fills a record by itself need not be copied.
      if gathered.isEmpty, rest.count >= Self.fullRecord { return send(rest) }
      skipped = 0
      gathered.append(copying: rest)
      if gathered.count >= Self.fullRecord { break }
    }
    return send(gathered.span)
  }

  /// Returns false if some of the ciphertext waits for room.
  func flush() -> Bool { engine?.flush(to: self) ?? true }

  func sendCiphertext(_ output: Span<UInt8>) -> Int {
    // The peer may be gone after its own close_notify. Then it needs no answer.
    let isFarewell = sending.isFinished && hasFoundEnd
    switch carrier?.send(output, isFarewell: isFarewell) {
    case .bytes(let count): return count
    case .wouldBlock, nil: return 0
    case .failed where isFarewell: return output.count
    case .failed(let error):
      // The carrier can never send these bytes, so they are dropped.
      if carrierError == nil { carrierError = error }
      sending.carrierFailed(dropping: output.count)
      // The stream is told in a rescheduled run, because this may be in the middle of a receive.
      registration.reschedule()
      return output.count
    }
  }

  /// `nil` if the carrier has not failed, or the stream was told. The stream counts as told from now on.
  func takeCarrierError() -> SystemError? { sending.reportFailure() ? carrierError.take() : nil }

  func finishWriting() -> SystemError? {
    engine?.finishWriting()
    sending.finished()
    _ = flush()
    return takeCarrierError()
  }
}
