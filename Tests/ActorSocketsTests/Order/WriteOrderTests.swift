import ActorSockets
import EpollReactor
import ActorSocketsTesting
import SocketSystem
import TestSupport
import Testing

// Tickets are taken and calls are made under one lock, so the order of the tickets is the order of the calls. Every call
// writes its ticket as eight bytes, and the peer checks that they arrive in the order of their numbers.

@Suite struct WriteOrderTests {
  enum Place: CaseIterable, Sendable {
    case pool, workers, reactor, otherReactor, mainActor, actor, actorOnReactor
  }

  enum Form: CaseIterable, Sendable {
    case enqueued, array, full, span, sequence, pieces, text, message
  }

  static let rounds = 6000

  private struct Desk: Sendable {
    let stream: any ByteStream
    let tickets = Locked<UInt64>(0)

    func write(_ form: Form) -> Task<Void, any Error>? {
      tickets.withLock { ticket in
        let record = ticket.record
        ticket += 1
        if form == .enqueued {
          _ = stream.enqueueWrite(record)
          return nil
        }
        return Task.immediate { try await Self.write(form, record, to: stream) }
      }
    }

    static func write(_ form: Form, _ record: [UInt8], to stream: any ByteStream) async throws {
      switch form {
      case .enqueued: try await stream.enqueueWrite(record).value
      case .array: try await stream.write(record)
      case .full: try await stream.write(record, timeout: .seconds(60), progress: nil)
      case .span: try await stream.write(record.span)
      case .sequence: try await stream.write(record.lazy.map { $0 })
      case .pieces: try await stream.write(contentsOf: [Array(record[..<3]), Array(record[3...])])
      case .message: try await stream.write(message: Array(record[1...]), lengthPrefix: .uint8)
      // The numbers are small enough that all bytes are ASCII.
      case .text: try await stream.write(utf8: String(decoding: record, as: UTF8.self))
      }
    }
  }

  private func check(_ stream: any ByteStream, upTo count: Int) async throws {
    for expected in 0..<UInt64(count) {
      let ticket = UInt64(record: try await stream.read(exactly: 8))
      if ticket != expected { throw Overdue(description: "ticket \(ticket) came in place of \(expected)") }
    }
  }

  /// Runs a body with a stream, and checks that its peer receives this many records in order.
  private func write(
    _ transport: Transport, upTo count: Int, seconds: Int = 120,
    _ body: @escaping @Sendable (any ByteStream, Reactor) async throws -> Void
  ) async throws {
    try await within("all records arrive", seconds: seconds) {
      let reactor = Reactor()
      let pair = try await transport.pair(on: reactor) { $0.writeBudget = 1 << 30 }
      try await withThrowingTaskGroup(of: Void.self) { group in
        group.addTask { try await body(pair.client, reactor) }
        group.addTask { try await check(pair.server, upTo: count) }
        try await group.waitForAll()
      }
    }
  }

  private actor Default {
    func run(_ body: @Sendable () async throws -> Void) async throws { try await body() }
  }

  private actor OnReactor: ReactorActor {
    nonisolated let executor: ReactorExecutor
    private var isRunning = false
    init(_ reactor: Reactor) { executor = ReactorExecutor(reactor) }
    func run(_ body: @Sendable () async throws -> Void) async throws {
      // Without a word of its own to say here, the compiler would not hop to the actor first.
      isRunning = true
      try await body()
    }
  }

  private static func run(
    _ place: Place, _ reactor: Reactor, _ other: Reactor, _ body: @escaping @Sendable () async throws -> Void
  ) async throws {
    switch place {
    case .pool: try await Task(executorPreference: globalConcurrentExecutor) { try await body() }.value
    case .workers: try await Task(executorPreference: WorkerPool.shared) { try await body() }.value
    case .reactor: try await Task(executorPreference: reactor) { try await body() }.value
    case .otherReactor: try await Task(executorPreference: other) { try await body() }.value
    case .mainActor: try await Task { @MainActor in try await body() }.value
    case .actor: try await Default().run(body)
    case .actorOnReactor: try await OnReactor(reactor).run(body)
    }
  }

  @Test(arguments: [Transport.tcpOverIPv4, .inMemory])
  func `Calls from everywhere are carried out in the order in which they were made`(
    transport: Transport
  ) async throws {
    let priorities: [TaskPriority] = [.background, .low, .medium, .high]
    let perWriter = Self.rounds / Place.allCases.count / priorities.count
    try await write(transport, upTo: perWriter * Place.allCases.count * priorities.count) { stream, reactor in
      let (desk, other) = (Desk(stream: stream), Reactor())
      try await withThrowingTaskGroup(of: Void.self) { group in
        for place in Place.allCases {
          for priority in priorities {
            group.addTask(priority: priority) {
              try await Self.run(place, reactor, other) {
                var random = SeededRandom(seed: UInt64(priority.rawValue))
                for _ in 0..<perWriter {
                  let writing = desk.write(Form.allCases.randomElement(using: &random) ?? .enqueued)
                  if Bool.random(using: &random) { try await writing?.value }
                  if Bool.random(using: &random) { await Task.yield() }
                }
              }
            }
          }
        }
        try await group.waitForAll()
      }
    }
  }

  /// On the reactor's thread nothing comes between taking a ticket and making the call.
  @Test(arguments: [Transport.tcpOverIPv4, .inMemory], [Place.reactor, .actorOnReactor])
  func `Plain calls on the reactor's thread are carried out in the order in which they were made`(
    transport: Transport, place: Place
  ) async throws {
    let (writers, perWriter) = (40, Self.rounds / 40)
    try await write(transport, upTo: writers * perWriter) { stream, reactor in
      let tickets = Locked<UInt64>(0)
      try await withThrowingTaskGroup(of: Void.self) { group in
        for number in 0..<writers {
          group.addTask(priority: number % 2 == 0 ? .low : .high) {
            try await Self.run(place, reactor, reactor) {
              var random = SeededRandom(seed: UInt64(number))
              for _ in 0..<perWriter {
                let form = Form.allCases.randomElement(using: &random) ?? .array
                let record = tickets.withLock { ticket in
                  defer { ticket += 1 }
                  return ticket.record
                }
                try await Desk.write(form, record, to: stream)
              }
            }
          }
        }
        try await group.waitForAll()
      }
    }
  }

  /// Tasks that an actor on the reactor starts while a task that prefers the reactor calls it, and the other way round.
  private actor Starter: ReactorActor {
    nonisolated let executor: ReactorExecutor
    let stream: any ByteStream
    var ticket: UInt64 = 0

    init(_ reactor: Reactor, _ stream: any ByteStream) {
      executor = ReactorExecutor(reactor)
      self.stream = stream
    }

    func start(_ count: Int) -> [Task<Void, any Error>] {
      (0..<count).map { number in
        if number % 3 == 0 { return Task.immediate { try await self.write() } }
        return Task { try await self.write() }
      }
    }

    private func write() async throws {
      for round in 0..<10 {
        let record = ticket.record
        ticket += 1
        switch (ticket ^ UInt64(round)) % 4 {
        case 0: _ = stream.enqueueWrite(record)
        case 1: try await stream.write(record)
        case 2: try await stream.write(contentsOf: [record])
        default: try await stream.write(record.lazy.map { $0 })
        }
      }
    }
  }

  @Test(arguments: [Transport.tcpOverIPv4, .inMemory])
  func `Tasks without the preference of the one that started them keep the order`(transport: Transport) async throws {
    try await write(transport, upTo: 6 * 50 * 10) { stream, reactor in
      let starter = Starter(reactor, stream)
      for place in [Place.reactor, .pool, .workers, .reactor, .mainActor, .workers] {
        try await Self.run(place, reactor, reactor) {
          for task in await starter.start(50) { try await task.value }
        }
      }
    }
  }

  @Test(arguments: [Transport.tcpOverIPv4, .inMemory], Place.allCases)
  func `A write enqueued before another call is sent before it`(transport: Transport, place: Place) async throws {
    try await write(transport, upTo: 2000) { stream, reactor in
      try await Self.run(place, reactor, Reactor()) {
        for round in 0..<1000 as Range<UInt64> {
          _ = stream.enqueueWrite((2 * round).record)
          let form = Form.allCases[Int(round) % Form.allCases.count]
          try await Desk.write(form, (2 * round + 1).record, to: stream)
        }
      }
    }
  }

  @Test(arguments: [Transport.tcpOverIPv4, .inMemory], Place.allCases)
  func `A call that goes behind another keeps its place`(transport: Transport, place: Place) async throws {
    try await write(transport, upTo: 300, seconds: 60) { stream, reactor in
      try await Self.run(place, reactor, Reactor()) {
        for round in 0..<100 as Range<UInt64> { try await stream.writeBetween(3 * round) }
      }
    }
  }

  @Test(arguments: [Transport.tcpOverIPv4, .inMemory])
  func `A method of an extension does not get ahead of what it enqueued`(transport: Transport) async throws {
    try await within("all records arrive") {
      let pair = try await transport.pair()
      let client = pair.client
      async let written: Void = client.writeTwice(0)
      try await check(pair.server, upTo: 5)
      #expect(try await pair.server.read() == nil)
      try await written
    }
  }
}

extension ByteStream {
  /// The second write begins on the spot, here.
  fileprivate func writeBetween(_ first: UInt64) async throws {
    _ = enqueueWrite(first.record)
    let writing = Task.immediate { try await self.write((first + 1).record, timeout: nil, progress: nil) }
    _ = enqueueWrite((first + 2).record)
    try await writing.value
  }

  /// Isolated to the stream, so that its calls need not come through the queue.
  fileprivate func writeTwice(_ first: UInt64) async throws {
    _ = enqueueWrite(first.record)
    try await write((first + 1).record, timeout: nil, progress: nil)
    _ = enqueueWrite((first + 2).record)
    try await write(contentsOf: [(first + 3).record])
    _ = enqueueWrite((first + 4).record)
    try await finishWriting()
  }
}

extension UInt64 {
  /// Eight bytes: how many follow, as a message has it, and seven of seven bits each.
  fileprivate var record: [UInt8] {
    let digits: [UInt8] = (0..<7).map { UInt8(truncatingIfNeeded: self >> (7 * $0)) & 127 }
    return [7] + digits
  }

  fileprivate init(record: [UInt8]) {
    self = record.dropFirst().reversed().reduce(0) { $0 << 7 | UInt64($1) }
  }
}
