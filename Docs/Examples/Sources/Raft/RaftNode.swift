import ActorSockets

/// What a test sees of a node, and where it may interrupt it. By default, both do nothing.
struct RaftHooks: Sendable {
  /// Gets the number of the node and what happens in it.
  var observe: @Sendable (Int, RaftEvent) throws -> Void = { _, _ in }
  /// A place in the program at which a fault is interesting.
  var point: @Sendable (String) async -> Void = { _ in }
}

/// A node: it passes messages, requests and the time to its `RaftMachine`, one after the other, and carries out what that decides.
actor RaftNode {
  private enum Input: Sendable {
    case time
    case message(from: Int, term: UInt64, RaftMessage)
    case request(ClientRequest, UInt64)
  }

  private let hooks: RaftHooks
  private let start = ContinuousClock.now
  private let inputs = AsyncStream.makeStream(of: Input.self)
  private var machine: RaftMachine
  private var storage: RaftStorage
  private var values = KeyValueStore()
  /// Requests without an answer.
  private var waiting: [UInt64: AsyncStream<ClientAnswer>.Continuation] = [:]
  private var lastRequest: UInt64 = 0
  private var timer: (end: Duration, task: Task<Void, Never>)?

  /// Creates a node with what is on its disk.
  init(_ configuration: RaftConfiguration, on disk: any Disk, hooks: RaftHooks = RaftHooks()) async throws {
    self.hooks = hooks
    let (storage, vote, log) = try await RaftStorage.open(on: disk)
    self.storage = storage
    machine = RaftMachine(
      configuration, vote: vote, log: log, seed: .random(in: 0 ... .max), at: ContinuousClock.now - start)
    values.ignoresSessions = configuration.bugs.contains(.appliesTwice)
  }

  /// Serves clients and other nodes, until a signal comes.
  ///
  /// - Parameters:
  ///   - listener: Where they connect.
  ///   - others: Where the other nodes listen.
  ///   - signals: The signals that stop it.
  /// - Throws: `SocketError` if the listener or the disk fails. Then the node has to start again, with what is on the disk.
  func run(on listener: TCPListener, others: [Int: Endpoint], stopOn signals: Set<ProcessSignal> = []) async throws {
    let links = others.mapValues { NodeLink(to: $0) }
    try await withThrowingTaskGroup { group in
      for link in links.values { group.addTask { await link.run() } }
      group.addTask { try await self.decide(links) }
      group.addTask {
        try await listener.serve(.init(drain: .within(.seconds(2)), stopOn: signals)) { connection in
          try await self.serve(connection)
        }
        // The node is stopped, so everything else is cancelled.
        throw CancellationError()
      }
      do {
        // The first one that fails ends all.
        while try await group.next() != nil {}
      } catch is CancellationError {}
      group.cancelAll()
    }
    timer?.task.cancel()
  }

  // MARK: Inputs

  private func serve(_ connection: TCPConnection) async throws {
    for try await bytes in connection.messages(
      lengthPrefix: .uint32(.big), maximumLength: Packet.longest, timeout: .seconds(600))
    {
      switch try Packet(bytes) {
      case .message(let sender, let term, let message):
        inputs.continuation.yield(.message(from: sender, term: term, message))
      case .request(let request):
        let answer = Packet.answer(await answer(request))
        try await connection.write(message: answer.bytes, lengthPrefix: .uint32(.big), timeout: .seconds(10))
      case .answer: throw ByteReader.Malformed()
      }
    }
  }

  private func answer(_ request: ClientRequest) async -> ClientAnswer {
    lastRequest += 1
    let number = lastRequest
    let (answers, continuation) = AsyncStream.makeStream(of: ClientAnswer.self)
    waiting[number] = continuation
    inputs.continuation.yield(.request(request, number))
    for await answer in answers { return answer }
    waiting[number] = nil
    return .notLeader(leader: nil)
  }

  // MARK: Decisions and effects

  private func decide(_ links: [Int: NodeLink]) async throws {
    setTimer()
    for await input in inputs.stream {
      let now = ContinuousClock.now - start
      let effects =
        switch input {
        case .time: machine.advance(to: now)
        case .message(let sender, let term, let message): machine.receive(message, from: sender, term: term, at: now)
        case .request(let request, let number): machine.receive(request, request: number, at: now)
        }
      for effect in effects { try await carryOut(effect, links) }
      setTimer()
    }
  }

  private func carryOut(_ effect: RaftMachine.Effect, _ links: [Int: NodeLink]) async throws {
    switch effect {
    case .save(let change):
      await hooks.point("before a save")
      // Only `decide` saves, so this changes no newer state.
      var storage = storage
      try await storage.save(change)
      self.storage = storage
      await hooks.point("after a save")
    case .send(let node, let term, let message):
      links[node]?.send(.message(from: machine.configuration.id, term: term, message))
    case .apply(let index, let entry, let term, let request):
      try hooks.observe(machine.configuration.id, .applied(index: index, entry, term: term))
      values.apply(entry.command)
      if let request { finish(request, .value(nil)) }
    case .read(let request, let key): finish(request, .value(values[key]))
    case .refuse(let request, let leader): finish(request, .notLeader(leader: leader))
    case .tell(let event):
      try hooks.observe(machine.configuration.id, event)
      if let point = event.point { await hooks.point(point) }
    }
  }

  private func finish(_ request: UInt64, _ answer: ClientAnswer) {
    guard let continuation = waiting.removeValue(forKey: request) else { return }
    continuation.yield(answer)
    continuation.finish()
  }

  /// Lets the machine know when its deadline is there. A timer that is too early does no harm.
  private func setTimer() {
    let (now, end) = (ContinuousClock.now - start, machine.deadline)
    if let timer, timer.end <= end, timer.end > now { return }
    timer?.task.cancel()
    let task = Task { [start, inputs] in
      do { try await Task.sleep(until: start + end, clock: .continuous) } catch { return }
      inputs.continuation.yield(.time)
    }
    timer = (end, task)
  }
}

extension RaftEvent {
  fileprivate var point: String? {
    switch self {
    case .askedForVotes: "asked for votes"
    case .voted: "voted"
    case .becameLeader: "became the leader"
    case .appended, .applied: nil
    }
  }
}
