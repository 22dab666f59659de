// Calls that people try first, with the call that does what they want. The compiler shows the sentence. Without these declarations, it
// reports that it fails to produce a diagnostic, or it describes another overload.

// swift-format-ignore: AllPublicDeclarationsHaveDocumentation
extension ByteStream {
  @available(
    *, unavailable, message: "use read(upTo:) for the bytes that have arrived, or read(exactly:) for a number of bytes"
  )
  public func read(_ length: Int) async throws -> [UInt8] { [] }

  @available(
    *, unavailable, message: "use lines for the lines of text, or read(until:) for the bytes up to a delimiter"
  )
  public func read(_ delimiter: String) async throws -> [UInt8] { [] }

  @available(
    *, unavailable,
    message: "use read(upTo:), which returns the bytes, or withBytes(upTo:) to look at them without a copy"
  )
  public func read(_ buffer: inout [UInt8]) async throws -> Int { 0 }

  @available(*, unavailable, message: "use lines in a for loop; read(until: .lf) reads one line as bytes")
  public func readLine() async throws -> String { "" }

  @available(
    *, unavailable,
    message: "use readToEnd(maximumLength:) with a limit of your own, because a peer decides how much it sends"
  )
  public func readAll() async throws -> [UInt8] { [] }

  @available(*, unavailable, message: "use lines, or messages(until:) with a delimiter")
  public func split(_ delimiter: String) -> StreamSequence<String> { lines }

  @available(
    *, unavailable, message: "use read(upTo:) for the bytes that have arrived, or read(exactly:) for a number of bytes"
  )
  public func receive(_ length: Int = 0) async throws -> [UInt8] { [] }

  @available(*, unavailable, message: "use write(utf8:), which sends the text as UTF-8")
  public func write(_ text: String) async throws {}

  @available(*, unavailable, message: "use enqueueWrite(utf8:), which sends the text as UTF-8")
  public func enqueueWrite(_ text: String) -> Pending<Void> { enqueueWrite([]) }

  @available(*, unavailable, message: "use ask(utf8:for:), which sends the text as UTF-8")
  public func ask<Value>(_ question: String, for answer: ReadRequest<Value>) async throws -> Value {
    try await read(answer)
  }

  @available(*, unavailable, message: "use enqueueAsk(utf8:for:), which sends the text as UTF-8")
  public func enqueueAsk<Value>(_ question: String, for answer: ReadRequest<Value>) -> Pending<Value> {
    enqueueRead(answer)
  }

  @available(*, unavailable, message: "use write(utf8:) with \"\\n\" at the end of the text")
  public func writeLine(_ text: String) async throws {}

  @available(*, unavailable, message: "use write(_:), or write(utf8:) for text")
  public func send<Bytes>(_ bytes: Bytes) async throws {}

  @available(
    *, unavailable, message: "use finishWriting() to end the sending direction, or close() to end the connection"
  )
  public func shutdown() async throws {}
}
