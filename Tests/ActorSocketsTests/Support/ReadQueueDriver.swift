@testable import ActorSockets

enum ReadResult: Hashable {
  case bytes([UInt8])
  case batch([[UInt8]])
  case end
  case borrow
  case failed(SocketError.Code)

  static func text(_ text: String) -> ReadResult { .bytes(Array(text.utf8)) }
}

extension ReadResult: CustomStringConvertible {
  var description: String {
    switch self {
    case .bytes(let bytes): String(decoding: bytes, as: UTF8.self).debugDescription
    case .batch(let batch): "\(batch.map(ReadResult.bytes))"
    case .end: "end"
    case .borrow: "borrow"
    case .failed(let code): "\(code)"
    }
  }
}

struct ReadDriver {
  struct Finished: Hashable {
    var tag: Int
    var result: ReadResult
    init(_ tag: Int, _ result: ReadResult) {
      self.tag = tag
      self.result = result
    }
  }

  var queue = ReadQueue<Int>()
  private(set) var begun: [Int] = []
  private(set) var finished: [Finished] = []
  private(set) var errors: [Int: SocketError] = [:]
  var ids: [Int: UInt64] = [:]
  /// The bytes that the first read wants, if the queue asks for any.
  private(set) var wanted: Int?
  private(set) var have: Int?
  private(set) var takesAny = false
  /// What a parser does to the queue while it looks at the bytes.
  var duringParse: ((inout ReadQueue<Int>) -> Void)?
  private(set) var neverRests = false

  /// Admits reads with the tags 1, 2, …
  init(isOpen: Bool = true, _ kinds: ReadKind...) {
    if isOpen { queue.open() }
    for (index, kind) in kinds.enumerated() { admit(kind, index + 1) }
  }

  var results: [ReadResult] { finished.map(\.result) }
  var buffered: [UInt8] { queue.buffer.withBytes { [UInt8](copying: $0) } }

  mutating func pump() {
    wanted = nil
    have = nil
    takesAny = false
    for _ in 0..<1_000_000 {
      switch queue.step() {
      case .idle:
        return
      case .receive(_, let have, let wanted):
        self.have = have
        self.wanted = wanted
        return
      case .receiveAny:
        (have, wanted, takesAny) = (0, 1, true)
        return
      case .begin(_, let tag):
        begun.append(tag)
      case .finish(let entry, let result):
        finish(entry.tag, result)
      case .parse(let entry, let parser, let isBatch):
        let bytes = buffered
        let outcome = parser.parse(bytes.span, isBatch ? ReadBuffer.largestBatch : nil, entry.parserState)
        duringParse?(&queue)
        guard let result = queue.endParse(entry, outcome) else { continue }
        entry.forgetParser()
        finish(entry.tag, result)
      }
    }
    neverRests = true
  }

  private mutating func finish(_ tag: Int, _ result: Result<ReadOutcome, SocketError>) {
    finished.append(Finished(tag, ReadResult(result)))
    if case .failure(let error) = result { errors[tag] = error }
  }

  mutating func admit(_ kind: ReadKind, _ tag: Int, isEnqueued: Bool = false) {
    ids[tag] = queue.admit(kind, isEnqueued: isEnqueued, tag)
    pump()
  }

  mutating func receive(_ bytes: some Sequence<UInt8>) {
    let bytes = Array(bytes)
    queue.received(bytes.span)
    pump()
  }

  /// Gives bytes to the first read, which takes whatever arrives, if they are not too many for it.
  mutating func finishAny(_ bytes: [UInt8]) -> Bool {
    guard let entry = queue.finishAny(bytes.count) else { return false }
    finished.append(Finished(entry.tag, .bytes(bytes)))
    return true
  }

  mutating func receive(_ text: String) { receive(text.utf8) }

  mutating func end(_ ending: StreamEnding = .endOfStream) {
    queue.end(ending)
    pump()
  }

  mutating func refuse(_ code: SocketError.Code) {
    queue.refuse(SocketError(code, operation: "read"))
    pump()
  }

  @discardableResult
  mutating func remove(_ tag: Int) -> Bool {
    guard let id = ids[tag] else { return false }
    let isRemoved = queue.remove(id) != nil
    pump()
    return isRemoved
  }

  mutating func lendEarly(_ tag: Int) -> Bool { ids[tag].map { queue.lendEarly($0) } ?? false }

  @discardableResult
  mutating func endBorrow(_ tag: Int, consumed: Int = 0, waitingForMoreThan seen: Int? = nil, failed: Bool = false)
    -> Int?
  {
    let tag = ids[tag].flatMap { queue.endBorrow($0, consumed: consumed, waitingForMoreThan: seen, failed: failed) }
    pump()
    return tag
  }
}

extension ReadResult {
  init(_ result: Result<ReadOutcome, SocketError>) {
    self =
      switch result {
      case .success(.bytes(let bytes)): .bytes(bytes)
      case .success(.messages(let messages)): .batch(messages)
      case .success(.lines(let lines)): .batch(lines.map { Array($0.utf8) })
      case .success(.parsed(let value as ParsedValue<[UInt8]>)): .bytes(value.value)
      case .success(.parsed(let value as ParsedValue<[[UInt8]]>)): .batch(value.value)
      case .success(.parsed(let value)): preconditionFailure("this test has no parser of \(value)")
      case .success(.endOfStream): .end
      case .success(.borrow): .borrow
      case .failure(let error): .failed(error.code)
      }
  }
}

/// What a read makes of bytes, worked out byte by byte from the words of the documentation.
struct NaiveOutcome {
  enum Ending { case clean, broken }

  var result: ReadResult
  var consumed = 0
  /// A line feed that comes next belongs to the line.
  var dropsLineFeed = false

  /// The outcome of a read that finds these bytes; `nil` if it must wait for more.
  static func of(_ kind: ReadKind, _ bytes: ArraySlice<UInt8>, _ ending: Ending?) -> NaiveOutcome? {
    func lacking(_ endIsNoError: Bool) -> NaiveOutcome? {
      switch ending {
      case nil: nil
      case .broken: NaiveOutcome(result: .failed(.connectionReset))
      case .clean: NaiveOutcome(result: endIsNoError && bytes.isEmpty ? .end : .failed(.endOfStream))
      }
    }
    func first(_ length: Int, without ending: Int = 0) -> NaiveOutcome {
      NaiveOutcome(result: .bytes(Array(bytes.prefix(length - ending))), consumed: length)
    }
    func delimited(_ delimiter: [UInt8], _ maximum: Int, _ endIsNoError: Bool, _ found: (Int) -> NaiveOutcome)
      -> NaiveOutcome?
    {
      var length = delimiter.count
      while length <= min(maximum, bytes.count) {
        if bytes.prefix(length).suffix(delimiter.count).elementsEqual(delimiter) { return found(length) }
        length += 1
      }
      return bytes.count >= maximum ? NaiveOutcome(result: .failed(.limitExceeded)) : lacking(endIsNoError)
    }

    switch kind {
    case .any(let limit):
      return bytes.isEmpty ? lacking(true) : first(min(limit, bytes.count))
    case .peek(let limit):
      return bytes.isEmpty ? lacking(true) : NaiveOutcome(result: .bytes(Array(bytes.prefix(limit))))
    case .exactly(let length, let orEnd):
      return bytes.count >= length ? first(length) : lacking(orEnd)
    case .until(let delimiter, let maximum, let orEnd):
      return delimited(delimiter.bytes, maximum, orEnd) { first($0) }
    case .line(.lf, let maximum):
      return delimited([10], maximum, true) { length in
        first(length, without: bytes.prefix(length).suffix(2).elementsEqual([13, 10]) ? 2 : 1)
      }
    case .line(.crlf, let maximum):
      return delimited([13, 10], maximum, true) { first($0, without: 2) }
    case .line(.any, let maximum):
      guard let end = bytes.prefix(maximum).firstIndex(where: { $0 == 10 || $0 == 13 }) else {
        return bytes.count >= maximum ? NaiveOutcome(result: .failed(.limitExceeded)) : lacking(true)
      }
      let length = end - bytes.startIndex + 1
      if bytes[end] == 10 { return first(length, without: 1) }
      if length < bytes.count {
        return bytes[end + 1] == 10 ? first(length + 1, without: 2) : first(length, without: 1)
      }
      var outcome = first(length, without: 1)
      outcome.dropsLineFeed = true
      return outcome
    case .message(let prefix, let maximum):
      if bytes.count < prefix.width { return lacking(true) }
      let digits = prefix.endianness == .big ? Array(bytes.prefix(prefix.width)) : bytes.prefix(prefix.width).reversed()
      var length = digits.reduce(UInt128(0)) { $0 * 256 + UInt128($1) }
      if prefix.countsItself {
        if length < prefix.width { return NaiveOutcome(result: .failed(.limitExceeded)) }
        length -= UInt128(prefix.width)
      }
      if length > maximum { return NaiveOutcome(result: .failed(.limitExceeded)) }
      let total = prefix.width + Int(length)
      if bytes.count < total { return lacking(false) }
      return NaiveOutcome(result: .bytes(Array(bytes.prefix(total).dropFirst(prefix.width))), consumed: total)
    case .toEnd(let maximum):
      if bytes.count > maximum { return NaiveOutcome(result: .failed(.limitExceeded)) }
      return ending == .clean ? first(bytes.count) : lacking(false)
    case .batch, .parse:
      preconditionFailure("a batch is compared with its parts, a parser with a built-in read")
    case .borrow(let seen):
      return bytes.count > seen || ending != nil ? NaiveOutcome(result: .borrow) : nil
    }
  }
}
