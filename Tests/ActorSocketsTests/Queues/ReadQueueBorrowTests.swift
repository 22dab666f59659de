import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct ReadQueueBorrowTests {
  @Test func `A read that borrows the buffer blocks the others until it ends`() {
    var driver = ReadDriver(.borrow(moreThan: 0), .any(upTo: 9))
    driver.receive("abc")
    #expect(driver.finished == [.init(1, .borrow)])
    #expect(driver.wanted == nil)
    driver.receive("d")
    #expect(driver.remove(1) == false)
    #expect(driver.finished == [.init(1, .borrow)])
    #expect(driver.endBorrow(1, consumed: 2) == 1)
    #expect(driver.finished.last == .init(2, .text("cd")))
  }

  @Test func `A read borrows again when there are more bytes than it saw, and is begun once`() {
    var driver = ReadDriver(.borrow(moreThan: 0))
    driver.receive("abc")
    #expect(driver.endBorrow(1, waitingForMoreThan: 3) == nil)
    #expect(driver.results == [.borrow])
    #expect(driver.have == 3 && driver.wanted == 1)
    #expect(driver.queue.borrowHasSeen == 3)
    driver.receive("d")
    #expect(driver.results == [.borrow, .borrow])
    #expect(driver.begun == [1])
    driver.endBorrow(1, consumed: 4)
    #expect(driver.buffered == [])
    #expect(driver.queue.count == 0)
  }

  @Test func `A read borrows once more at the end, with nothing new to see`() {
    var driver = ReadDriver(.borrow(moreThan: 0))
    driver.receive("abc")
    driver.endBorrow(1, waitingForMoreThan: 3)
    driver.end()
    #expect(driver.results == [.borrow, .borrow])
    driver.endBorrow(1)
    driver.admit(.any(upTo: 9), 2)
    #expect(driver.results.last == .text("abc"))
  }

  @Test func `A borrow that failed fails the enqueued reads behind it and no other`() {
    var driver = ReadDriver(.borrow(moreThan: 0))
    driver.admit(.exactly(1), 2, isEnqueued: true)
    driver.admit(.exactly(1), 3)
    driver.receive("ab")
    driver.endBorrow(1, consumed: 1, failed: true)
    #expect(driver.finished.dropFirst() == [.init(2, .failed(.precedingReadFailed)), .init(3, .text("b"))])
  }

  @Test func `Before there are bytes, the buffer is lent to the first read only, if it borrows`() {
    var driver = ReadDriver(.borrow(moreThan: 0), .borrow(moreThan: 0), .exactly(1))
    #expect(driver.lendEarly(2) == false)
    #expect(driver.lendEarly(1) == true)
    driver.pump()
    #expect(driver.finished == [.init(1, .borrow)])
    driver.endBorrow(1, waitingForMoreThan: 2)
    #expect(driver.lendEarly(1) == false)
    driver.remove(1)
    driver.remove(2)
    #expect(driver.lendEarly(3) == false)
    driver.receive("a")
    #expect(driver.finished.dropFirst() == [.init(3, .text("a"))])
  }

  @Test func `A read that looks at the bytes itself never sees the line feed of a line that is read`() {
    var driver = ReadDriver()
    driver.receive("a\r")
    driver.admit(.line(.any, maximumLength: 10), 1)
    driver.admit(.borrow(moreThan: 0), 2)
    #expect(driver.wanted == 1)
    #expect(driver.lendEarly(2) == false)
    driver.receive("\n")
    #expect(driver.results == [.text("a")])
    #expect(driver.lendEarly(2) == true)
  }

  @Test func `A read that waits for more than it saw sees what comes after the buffer was taken`() {
    var driver = ReadDriver(.borrow(moreThan: 0))
    driver.receive([1, 2, 3])
    driver.endBorrow(1, waitingForMoreThan: 3)
    #expect(driver.queue.takeBuffered() == [1, 2, 3])
    driver.receive([4])
    #expect(driver.results == [.borrow, .borrow])
  }

  // MARK: The state of the first read

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
}
