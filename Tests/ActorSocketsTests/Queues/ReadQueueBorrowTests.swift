import ActorSocketsTesting
import Testing

@testable import ActorSockets

@Suite struct ReadQueueBorrowTests {
  @Test func `A read that borrows the buffer blocks the others until it ends`() {
    var driver = ReadDriver()
    driver.admit(.borrow(moreThan: 0), 1)
    driver.admit(.any(upTo: 9), 2)
    driver.receive("abc")
    #expect(driver.finished == [.init(1, .borrow)])
    #expect(driver.wanted == nil)
    driver.receive("d")
    let isRemoved = driver.remove(1)
    #expect(!isRemoved)
    #expect(driver.finished == [.init(1, .borrow)])
    let tag = driver.endBorrow(1, consumed: 2)
    #expect(tag == 1)
    #expect(driver.finished.last == .init(2, .text("cd")))
  }

  @Test func `A read borrows again when there are more bytes than it saw, and is begun once`() {
    var driver = ReadDriver()
    driver.admit(.borrow(moreThan: 0), 1)
    driver.receive("abc")
    let tag = driver.endBorrow(1, waitingForMoreThan: 3)
    #expect(tag == nil)
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
    var driver = ReadDriver()
    driver.admit(.borrow(moreThan: 0), 1)
    driver.receive("abc")
    driver.endBorrow(1, waitingForMoreThan: 3)
    driver.end()
    #expect(driver.results == [.borrow, .borrow])
    driver.endBorrow(1)
    driver.admit(.any(upTo: 9), 2)
    #expect(driver.results.last == .text("abc"))
  }

  @Test func `A borrow that failed fails the enqueued reads behind it and no other`() {
    var driver = ReadDriver()
    driver.admit(.borrow(moreThan: 0), 1)
    driver.admit(.exactly(1), 2, isEnqueued: true)
    driver.admit(.exactly(1), 3)
    driver.receive("ab")
    driver.endBorrow(1, consumed: 1, failed: true)
    #expect(driver.finished.dropFirst() == [.init(2, .failed(.precedingReadFailed)), .init(3, .text("b"))])
  }

  @Test func `A read that waits to borrow again can be removed`() {
    var driver = ReadDriver()
    driver.admit(.borrow(moreThan: 0), 1)
    driver.receive("a")
    driver.endBorrow(1, waitingForMoreThan: 1)
    driver.admit(.exactly(1), 2, isEnqueued: true)
    let isRemoved = driver.remove(1)
    #expect(isRemoved)
    #expect(driver.finished.last == .init(2, .failed(.precedingReadFailed)))
    #expect(driver.endBorrow(1) == nil)
    #expect(driver.buffered == [97])
  }

  @Test func `Reads that are removed behind a borrow fail the enqueued reads behind them at once`() {
    var driver = ReadDriver()
    driver.admit(.borrow(moreThan: 0), 1)
    driver.receive("ab")
    driver.admit(.exactly(1), 2)
    driver.admit(.exactly(1), 3, isEnqueued: true)
    driver.remove(2)
    #expect(driver.finished == [.init(1, .borrow), .init(3, .failed(.precedingReadFailed))])
    driver.endBorrow(1, consumed: 2)
    #expect(driver.queue.count == 0)
  }

  @Test func `A refusal waits for the end of a borrow`() {
    var driver = ReadDriver()
    driver.admit(.borrow(moreThan: 0), 1)
    driver.admit(.exactly(1), 2)
    driver.receive("ab")
    driver.refuse(.closed)
    #expect(driver.results == [.borrow])
    driver.endBorrow(1, waitingForMoreThan: 2)
    #expect(driver.finished.dropFirst() == [.init(1, .failed(.closed)), .init(2, .failed(.closed))])
  }

  @Test func `Before there are bytes, the buffer is lent to the first read only, if it borrows`() throws {
    var driver = ReadDriver()
    driver.admit(.borrow(moreThan: 0), 1)
    driver.admit(.borrow(moreThan: 0), 2)
    driver.admit(.exactly(1), 3)
    let ids = driver.ids
    let isSecondGranted = driver.queue.lendEarly(try #require(ids[2]))
    #expect(!isSecondGranted)
    let isGranted = driver.queue.lendEarly(try #require(ids[1]))
    #expect(isGranted)
    driver.pump()
    #expect(driver.finished == [.init(1, .borrow)])
    driver.endBorrow(1, waitingForMoreThan: 2)
    let isGrantedMore = driver.queue.lendEarly(try #require(ids[1]))
    #expect(!isGrantedMore)
    driver.remove(1)
    driver.remove(2)
    let isReadGranted = driver.queue.lendEarly(try #require(ids[3]))
    #expect(!isReadGranted)
    driver.receive("a")
    #expect(driver.finished.dropFirst() == [.init(3, .text("a"))])
  }

  @Test func `A read to which the buffer is about to be lent can be removed`() throws {
    var driver = ReadDriver()
    driver.admit(.borrow(moreThan: 0), 1)
    driver.admit(.any(upTo: 9), 2)
    let id = try #require(driver.ids[1])
    let isGranted = driver.queue.lendEarly(id)
    #expect(isGranted)
    let isRemoved = driver.remove(1)
    #expect(isRemoved)
    driver.receive("a")
    #expect(driver.finished == [.init(2, .text("a"))])
  }

  @Test func `A read that looks at the bytes itself never sees the line feed of a line that is read`() throws {
    var driver = ReadDriver()
    driver.receive("a\r")
    driver.admit(.line(.any, maximumLength: 10), 1)
    driver.admit(.borrow(moreThan: 0), 2)
    #expect(driver.wanted == 1)
    let id = try #require(driver.ids[2])
    let isGranted = driver.queue.lendEarly(id)
    #expect(!isGranted)
    driver.receive("\n")
    #expect(driver.results == [.text("a")])
    let isGrantedNow = driver.queue.lendEarly(id)
    #expect(isGrantedNow)
  }

  @Test func `A read that waits for more than it saw sees what comes after the buffer was taken`() {
    var driver = ReadDriver()
    driver.admit(.borrow(moreThan: 0), 1)
    driver.receive([1, 2, 3])
    driver.endBorrow(1, waitingForMoreThan: 3)
    #expect(driver.queue.takeBuffered() == [1, 2, 3])
    driver.receive([4])
    #expect(driver.results == [.borrow, .borrow])
  }

  @Test func `Enqueued reads behind a failed withBytes fail too`() async throws {
    let (client, server) = InMemoryConnection.pair()
    let look = Task.immediate { try await client.withBytes(upTo: 4, timeout: nil) { _, _ in } }
    let behind = client.enqueueRead(.exactly(2), timeout: nil)
    try await server.write([1, 2, 3, 4], timeout: nil, progress: nil)
    let limit = await #expect(throws: SocketError.self) { try await look.value }
    #expect(limit?.code == .limitExceeded)
    let error = await #expect(throws: SocketError.self) { try await behind.value }
    #expect(error?.code == .precedingReadFailed)
    #expect(await client.takeBuffered() == [1, 2, 3, 4])
  }
}
