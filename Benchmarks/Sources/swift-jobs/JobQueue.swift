import ActorSockets

struct Job: Sendable {
  let id: UInt64
  let priority: UInt32
  /// In seconds; a reservation that takes longer is given up.
  let timeToRun: Int
  let bytes: [UInt8]
}

/// The jobs. It runs on the thread of the sockets, so a connection reaches it without a change of threads.
actor JobQueue: ReactorActor {
  nonisolated let executor = ReactorExecutor(.shared)
  private var ready = PriorityQueue()
  private var reserved: [UInt64: (job: Job, until: ContinuousClock.Instant)] = [:]
  private var waiting: [CheckedContinuation<Job, Never>] = []
  private var lastID: UInt64 = 0

  func put(_ bytes: [UInt8], priority: UInt32, timeToRun: Int) -> UInt64 {
    lastID += 1
    makeReady(Job(id: lastID, priority: priority, timeToRun: timeToRun, bytes: bytes))
    return lastID
  }

  /// Waits until there is a job.
  func reserve() async -> Job {
    if let job = ready.popFirst() {
      reserve(job)
      return job
    }
    return await withCheckedContinuation { waiting.append($0) }
  }

  /// A connection deletes what it has reserved.
  func delete(_ id: UInt64) -> Bool { reserved.removeValue(forKey: id) != nil }

  /// The connection that reserved them has ended.
  func release(_ ids: Set<UInt64>) {
    for id in ids { if let job = reserved.removeValue(forKey: id)?.job { makeReady(job) } }
  }

  func releaseOverdue() {
    let now = ContinuousClock.now
    for (id, reservation) in reserved where reservation.until <= now {
      reserved[id] = nil
      makeReady(reservation.job)
    }
  }

  private func makeReady(_ job: Job) {
    if waiting.isEmpty { return ready.insert(job) }
    reserve(job)
    waiting.removeFirst().resume(returning: job)
  }

  private func reserve(_ job: Job) { reserved[job.id] = (job, .now + .seconds(job.timeToRun)) }
}

/// Jobs by priority, those of the same priority in their order: a binary heap.
private struct PriorityQueue {
  private var heap: [Job] = []

  mutating func insert(_ job: Job) {
    heap.append(job)
    var index = heap.count - 1
    while index > 0, comesFirst(index, (index - 1) / 2) {
      heap.swapAt(index, (index - 1) / 2)
      index = (index - 1) / 2
    }
  }

  mutating func popFirst() -> Job? {
    guard let last = heap.popLast() else { return nil }
    guard let first = heap.first else { return last }
    heap[0] = last
    var index = 0
    while true {
      var child = 2 * index + 1
      if child + 1 < heap.count, comesFirst(child + 1, child) { child += 1 }
      if child >= heap.count || !comesFirst(child, index) { return first }
      heap.swapAt(index, child)
      index = child
    }
  }

  private func comesFirst(_ one: Int, _ other: Int) -> Bool {
    (heap[one].priority, heap[one].id) < (heap[other].priority, heap[other].id)
  }
}
