import ActorSockets
import ActorSocketsTLS
import Testing

extension ByteStream {
  /// Sends back what comes, until its end, and then ends, too.
  nonisolated func echo() async throws {
    while let bytes = try await read() { try await write(bytes) }
    try await finishWriting()
  }

  /// Sends back each line.
  nonisolated func echoLines() async throws { for try await line in lines { try await write(utf8: line + "\n") } }

  nonisolated func expectEcho(_ line: String = "hello\n", sourceLocation: SourceLocation = #_sourceLocation)
    async throws
  {
    try await write(utf8: line)
    let answer = try await read(until: .lf)
    #expect(answer == Array(line.utf8), sourceLocation: sourceLocation)
  }

  /// Everything up to the end of the stream.
  nonisolated func readToEnd() async throws -> [UInt8] {
    var bytes: [UInt8] = []
    while try await read(into: &bytes) > 0 {}
    return bytes
  }
}

extension Task where Success == ServeReport, Failure == any Error {
  /// The report of a server that is told to stop.
  var ended: ServeReport {
    get async throws {
      cancel()
      return try await value
    }
  }
}

extension CloseReport {
  var isByUs: Bool { if case .local = reason { true } else { false } }
}

/// Checks that `body` throws a `TLSError` with this code, and returns the error.
@discardableResult
nonisolated(nonsending) func expectTLSError(
  _ code: TLSError.Code, sourceLocation: SourceLocation = #_sourceLocation,
  _ body: nonisolated(nonsending) () async throws -> Void
) async -> TLSError {
  do {
    try await body()
    Issue.record("nothing was thrown in place of .\(code)", sourceLocation: sourceLocation)
  } catch let error as TLSError {
    #expect(error.code == code, "\(error)", sourceLocation: sourceLocation)
    return error
  } catch {
    Issue.record("\(error) was thrown in place of .\(code)", sourceLocation: sourceLocation)
  }
  return TLSError(.internalError)
}

/// Checks that `body` throws a `TLSError`, with this code and this detail if they are given, and returns the error.
@discardableResult
func refused<Value>(
  _ code: TLSError.Code? = nil, _ detail: String? = nil, sourceLocation: SourceLocation = #_sourceLocation,
  _ body: () throws -> Value
) -> TLSError? {
  let error = #expect(throws: TLSError.self, sourceLocation: sourceLocation) { _ = try body() }
  #expect(code == nil || error?.code == code, "\(error as Any)", sourceLocation: sourceLocation)
  #expect(detail == nil || error?.detail == detail, "\(error as Any)", sourceLocation: sourceLocation)
  return error
}

/// Checks that `body` throws a `SocketError` with this code, or with the other.
nonisolated(nonsending) func expectError(
  _ code: SocketError.Code, or other: SocketError.Code? = nil, sourceLocation: SourceLocation = #_sourceLocation,
  _ body: nonisolated(nonsending) () async throws -> Void
) async {
  do {
    try await body()
    Issue.record("nothing was thrown in place of .\(code)", sourceLocation: sourceLocation)
  } catch let error as SocketError {
    #expect(error.code == code || error.code == other, "\(error)", sourceLocation: sourceLocation)
  } catch {
    Issue.record("\(error) was thrown in place of .\(code)", sourceLocation: sourceLocation)
  }
}
