import TestSupport
import Testing

@testable import ActorSockets

/// How far the first read has come, after each event in each state.
@Suite(.tags(.pure)) struct ReadQueueStateTests {
  enum Event: CaseIterable {
    case step, byteAndStep, refusalAndStep, lendEarly, removal, endBorrow, endBorrowWaiting
  }

  /// The first read is one that borrows; another one waits behind it.
  private struct Subject {
    var queue = ReadQueue<Int>()
    let id: UInt64

    init(_ state: FirstRead) {
      queue.open()
      id = queue.admit(.borrow(moreThan: 0), isEnqueued: false, 1)
      _ = queue.admit(.exactly(1), isEnqueued: false, 2)
      if state == .notBegun { return }
      _ = queue.step()
      if state == .waiting { return }
      _ = queue.lendEarly(id)
      if state == .lending { return }
      _ = queue.step()
    }

    mutating func happens(_ event: Event) {
      switch event {
      case .step: _ = queue.step()
      case .byteAndStep:
        let byte: [UInt8] = [65]
        queue.received(byte.span)
        _ = queue.step()
      case .refusalAndStep:
        queue.refuse(SocketError(.closed, operation: "read"))
        _ = queue.step()
      case .lendEarly: _ = queue.lendEarly(id)
      case .removal: _ = queue.remove(id)
      case .endBorrow: _ = queue.endBorrow(id, consumed: 0, waitingForMoreThan: nil)
      case .endBorrowWaiting: _ = queue.endBorrow(id, consumed: 0, waitingForMoreThan: 0)
      }
    }

    /// The state of the read; `nil` if it has left.
    var state: FirstRead? { queue.first?.id == id ? queue.firstRead : nil }
  }

  /// The state after each event, in the order of `Event.allCases`.
  private static let transitions: [FirstRead: [FirstRead?]] = [
    .notBegun: [.waiting, .waiting, nil, .notBegun, nil, .notBegun, .notBegun],
    .waiting: [.waiting, .borrowing, nil, .lending, nil, .waiting, .waiting],
    .lending: [.borrowing, .borrowing, nil, .lending, nil, .lending, .lending],
    .borrowing: [.borrowing, .borrowing, .borrowing, .borrowing, .borrowing, nil, .waiting],
  ]

  @Test(arguments: FirstRead.allCases, Event.allCases)
  func `Each event moves the first read to its next state, and only that`(state: FirstRead, event: Event) throws {
    let index = try #require(Event.allCases.firstIndex(of: event))
    var subject = Subject(state)
    #expect(subject.state == state)
    subject.happens(event)
    let expected = try #require(Self.transitions[state])[index]
    #expect(subject.state == expected)
    if expected == nil {
      #expect(subject.queue.first?.tag == 2)
      #expect(subject.queue.firstRead == .notBegun, "the read behind it has not begun")
    }
  }

  @Test func `A read that leaves from behind the first one does not change the state of the first`() throws {
    for state in FirstRead.allCases {
      var subject = Subject(state)
      let last = try #require(subject.queue.all.last?.id)
      #expect(subject.queue.remove(last)?.tag == 2)
      #expect(subject.state == state)
    }
  }

  @Test func `A read that is admitted to a free queue can borrow at once, and no step says so`() {
    var queue = ReadQueue<Int>()
    #expect(!queue.isFree)
    queue.open()
    let byte: [UInt8] = [65]
    queue.received(byte.span)
    #expect(queue.isFree)
    let id = queue.admit(.borrow(moreThan: 0), isEnqueued: false, 1)
    #expect(!queue.isFree)
    #expect(queue.lend()?.id == id)
    #expect(queue.firstRead == .borrowing)
    guard case .idle = queue.step() else { Issue.record("a step said something"); return }
    #expect(queue.endBorrow(id, consumed: 1, waitingForMoreThan: nil) == 1)
    #expect(queue.firstRead == .notBegun && queue.buffer.isEmpty && queue.isFree)
  }

  @Test func `A refusal outlives the opening of the stream`() {
    var queue = ReadQueue<Int>()
    queue.refuse(SocketError(.closed, operation: "read"))
    queue.open()
    #expect(queue.isRefusing && !queue.isFree)
    _ = queue.admit(.any(upTo: 1), isEnqueued: false, 1)
    guard case .finish(_, .failure(let error)) = queue.step() else { Issue.record("it was not refused"); return }
    #expect(error.code == .closed)
  }

  @Test func `The ending that comes first stays, also behind a carriage return whose line feed may follow`() {
    for isLine in [false, true] {
      var driver = ReadDriver()
      if isLine {
        driver.receive("a\r")
        driver.admit(.line(.any, maximumLength: 9), 0)
        #expect(!driver.queue.isFree)
      }
      driver.end()
      driver.end(.failed(SocketError(.connectionReset, operation: "connection")))
      driver.admit(.any(upTo: 9), 1)
      #expect(driver.results.last == .end)
      #expect(driver.queue.isFree)
    }
  }
}
