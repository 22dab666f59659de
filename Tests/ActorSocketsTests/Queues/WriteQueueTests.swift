import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct WriteQueueTests {
  @Test func `Nothing is begun before the stream is open; then writes go out in the order of their calls`() {
    var driver = WriteDriver(isOpen: false, "ab", "cd")
    driver.pump([9])
    #expect(driver.begun == [] && driver.taken == [])
    driver.queue.open()
    driver.pump([9])
    #expect(driver.text == "abcd")
    #expect(driver.begun == [1, 2])
    #expect(driver.finished == [.init(1), .init(2)])
    #expect(driver.queue.isEmpty && driver.queue.queuedBytes == 0)
  }

  @Test func `Bytes leave once and in order, however few the kernel takes at a time`() {
    let texts = ["abc", "", "d", "efgh"]
    for pattern in 0..<(1 << 7) {
      // Every way to cut the eight bytes into sends.
      var sends: [Int] = []
      var size = 1
      for bit in 0..<7 {
        if pattern >> bit & 1 == 1 {
          sends.append(size)
          size = 1
        } else {
          size += 1
        }
      }
      sends.append(size)
      for pieces in [1, 2, 64] {
        var driver = WriteDriver()
        driver.maximumPieces = pieces
        for (tag, text) in texts.enumerated() { driver.admit(text.utf8.map { [$0] }, tag) }
        for count in sends { driver.pump([count]) }
        driver.pump(Array(repeating: 8, count: 8))
        if driver.text != "abcdefgh" || driver.finished != (0..<4).map({ .init($0) }) || driver.queue.queuedBytes != 0 {
          Issue.record("\(sends), \(pieces) pieces: \(driver.text) \(driver.finished)")
          return
        }
      }
    }
  }

  @Test func `Small writes go out in one send`() {
    var driver = WriteDriver()
    for tag in 0..<10 { driver.admit([[UInt8(tag)], [UInt8(tag)]], tag) }
    driver.pump([1000])
    #expect(driver.sends == 1)
    #expect(driver.finished.count == 10)
  }

  @Test func `Buffered bytes go before what is admitted after them, in one piece`() {
    var driver = WriteDriver()
    for text in ["ab", "c", "de"] { driver.queue.buffer(Array(text.utf8)) }
    #expect(driver.queue.queuedBytes == 5 && !driver.queue.isFree)
    driver.admit("fg", 1)
    #expect(!driver.queue.canBuffer(1))
    #expect(driver.shownPieces == [Array("abcde".utf8), Array("fg".utf8)])
    driver.pump([7])
    #expect(driver.finished == [.init(nil), .init(1)])
    #expect(
      driver.queue.canBuffer(WriteQueue<Int>.mostBuffered) && !driver.queue.canBuffer(WriteQueue<Int>.mostBuffered + 1))
  }

  @Test func `Nothing is buffered behind a half-close, and no more than the limit`() {
    var driver = WriteDriver()
    driver.queue.buffer([UInt8](repeating: 1, count: WriteQueue<Int>.mostBuffered - 1))
    #expect(driver.queue.canBuffer(1) && !driver.queue.canBuffer(2))
    driver.finishWriting(1)
    driver.pump([.max])
    #expect(driver.isShutDown && driver.queue.isEmpty && !driver.queue.canBuffer(1))
  }

  @Test func `No more pieces than the maximum are shown`() {
    var driver = WriteDriver()
    for tag in 1...2 {
      driver.admit(Array(repeating: [1], count: 100), tag)
      #expect(driver.shownPieces.count == 64)
    }
    driver.pump([64])
    #expect(driver.shownPieces.count == 64)
    driver.pump([30])
    #expect(driver.shownPieces.count == 64)
  }

  @Test func `Another write joins a send only below the maximum of bytes`() {
    var driver = WriteDriver()
    driver.maximumBytes = 4
    driver.admit("abc", 1)
    driver.admit("de", 2)
    driver.admit("f", 3)
    #expect(driver.shown == Array("abcde".utf8))
    driver.pump([4])
    #expect(driver.shown == Array("ef".utf8))
  }

  @Test func `Empty pieces in front of a byte do not hide it from a gathered send`() {
    var driver = WriteDriver()
    driver.admit(Array(repeating: [], count: 64) + [[1]], 1)
    driver.pump()
    #expect(driver.shown == [1])
    driver.pump([1])
    #expect(driver.finished == [.init(1)])
  }

  @Test func `Empty writes succeed in their turn without a send`() {
    var driver = WriteDriver("a")
    driver.admit([], 2)
    driver.admit([[], []], 3)
    driver.pump()
    #expect(driver.finished == [])
    driver.pump([1])
    #expect(driver.finished == [.init(1), .init(2), .init(3)])
    #expect(driver.sends == 1)
  }

  @Test func `A write of which a part went without queueing shows only the rest, and counts the whole`() {
    var driver = WriteDriver()
    driver.admit([Array("cd".utf8), Array("e".utf8)], 1, alreadySent: 2)
    driver.admit("f", 2)
    #expect(driver.queue.queuedBytes == 4)
    #expect(driver.queue.first?.sent == 2 && driver.queue.first?.total == 5)
    driver.pump([1])
    #expect(driver.shown == Array("def".utf8))
    #expect(driver.queue.first?.sent == 3)
    driver.queue.refuse(SocketError(.connectionReset, operation: "write"))
    driver.pump()
    #expect(driver.finished == [.init(1, failedAfter: 3), .init(2, failedAfter: 0)])
  }

  // MARK: Taking back

  @Test func `A write that has not begun is taken out, and its bytes never leave`() {
    for isOpen in [false, true] {
      var driver = WriteDriver(isOpen: isOpen)
      for (tag, text) in ["a", "bb", "c"].enumerated() { driver.admit(text, tag) }
      #expect(driver.remove(1) == 0)
      #expect(driver.remove(1) == nil)
      #expect(driver.queue.queuedBytes == 2)
      driver.queue.open()
      driver.pump([9])
      #expect(driver.text == "ac")
      #expect(driver.finished == [.init(0), .init(2)])
    }
  }

  @Test func `A write of which a part is sent is never torn: it goes on without anybody waiting`() {
    var driver = WriteDriver("abc", "def")
    driver.pump([1])
    #expect(driver.remove(1) == 1)
    #expect(driver.remove(1) == nil)
    #expect(driver.queue.queuedBytes == 5)
    driver.pump([3])
    #expect(driver.remove(2) == 1)
    driver.pump([9])
    #expect(driver.text == "abcdef")
    #expect(driver.finished == [.init(nil), .init(nil)])
  }

  @Test func `A write that is abandoned goes on without anybody waiting, though no byte of it was sent`() {
    var driver = WriteDriver(isOpen: false)
    for (tag, text) in ["ab", "cd", "ef"].enumerated() { driver.admit(text, tag) }
    #expect(driver.abandon(1) == true)
    #expect(driver.abandon(1) == false)
    #expect(driver.remove(1) == nil)
    #expect(driver.queue.queuedBytes == 6 && driver.queue.waiting == 2)
    driver.queue.open()
    driver.pump([9])
    #expect(driver.text == "abcdef")
    #expect(driver.finished == [.init(0), .init(nil), .init(2)])
    #expect(driver.abandon(0) == false)
  }

  @Test func `An empty write that is taken back is dropped, a half-close is carried out though no call waits for it`() {
    var driver = WriteDriver(isOpen: false)
    driver.admit([], 1)
    driver.finishWriting(2)
    #expect(driver.remove(1) == 0)
    #expect(driver.remove(2) == 0)
    #expect(driver.remove(2) == nil)
    driver.queue.open()
    driver.pump()
    #expect(driver.finished == [.init(nil)])
    #expect(driver.isShutDown)
  }

  @Test(arguments: RemovalOrder.allCases)
  func `A hundred thousand writes behind one that is partly sent are taken back in a moment`(order: RemovalOrder) {
    // Moved at each one that leaves, it would be 5 billion moves of an entry.
    var driver = WriteDriver()
    for tag in 0..<100_000 { driver.admit("ab", tag) }
    driver.pump([1])
    for tag in order.ids.map({ Int($0) }) {
      if driver.remove(tag) != (tag == 0 ? 1 : 0) { Issue.record("\(tag) was not there"); return }
    }
    driver.pump([9])
    #expect(driver.text == "ab")
    #expect(driver.queue.queuedBytes == 0 && driver.queue.isEmpty)
  }

  // MARK: Files and descriptors

  @Test func `A file goes out between the writes around it, from where the kernel left off`() throws {
    let file = try FileSource(path: "/proc/self/exe")
    for room in 1...12 {
      var driver = WriteDriver("ab")
      driver.sendFile(file, 65..<72, 2)
      driver.sendFile(file, 0..<0, 3)
      driver.admit("cd", 4)
      #expect(driver.queue.queuedBytes == 11)
      driver.pump(Array(repeating: room, count: 12))
      #expect(driver.text == "abABCDEFGcd")
      #expect(driver.finished == (1...4).map { .init($0) })
      #expect(driver.queue.queuedBytes == 0)
    }
  }

  @Test func `A file that has begun is never torn, one that has not is taken out`() throws {
    let file = try FileSource(path: "/proc/self/exe")
    var driver = WriteDriver()
    driver.sendFile(file, 65..<70, 1)
    driver.sendFile(file, 75..<80, 2)
    driver.pump([2])
    #expect(driver.remove(2) == 0)
    #expect(driver.remove(1) == 2)
    driver.admit("x", 3)
    driver.pump([9, 9])
    #expect(driver.text == "ABCDEx")
    driver.sendFile(file, 65..<70, 4)
    driver.pump([3])
    driver.queue.refuse(SocketError(.connectionReset, operation: "write"))
    driver.pump()
    #expect(driver.finished == [.init(nil), .init(3), .init(4, failedAfter: 3)])
  }

  @Test func `A descriptor goes with the first byte of its write, once, and no other bytes go along`() throws {
    for room in 1...4 {
      var driver = WriteDriver("ab")
      let descriptor = try OwnedDescriptor.openForReading("/dev/null")
      let number = descriptor.number
      driver.pass("cde", descriptor, 2)
      driver.admit("f", 3)
      driver.pump(Array(repeating: room, count: 8))
      #expect(driver.text == "abcdef")
      #expect(driver.passed.map(\.0) == [number] && driver.passed.first?.at == 2)
      #expect(driver.finished == [.init(1), .init(2), .init(3)])
    }
  }

  // MARK: Flush, half-close, refusal

  @Test func `A flush leaves when all before it is sent, also behind a half-close`() {
    var driver = WriteDriver("ab")
    driver.flush(2)
    driver.admit("cd", 3)
    driver.finishWriting(4)
    driver.flush(5)
    driver.pump([1])
    #expect(driver.finished == [])
    driver.pump([1])
    #expect(driver.finished == [.init(1), .init(2)])
    driver.pump([2])
    #expect(driver.finished == (1...5).map { .init($0) })
    #expect(driver.isShutDown && driver.text == "abcd")
    driver.queue.refuse(SocketError(.connectionReset, operation: "write"))
    driver.flush(6)
    driver.pump()
    #expect(driver.finished.last == .init(6, failedAfter: 0))
  }

  @Test func `The half-close comes when all before it is sent`() {
    var driver = WriteDriver("ab")
    driver.finishWriting(2)
    #expect(driver.queue.isFinishing && !driver.queue.isFinished)
    driver.pump([1])
    #expect(!driver.isShutDown)
    #expect(driver.shown == [98])
    driver.pump([1])
    #expect(driver.isShutDown && driver.queue.isFinished)
    #expect(driver.finished == [.init(1), .init(2)])
    #expect(driver.begun == [1, 2])
  }

  @Test func `A refusal fails every write, those to come too, and says how much of each was taken`() {
    for isOpen in [false, true] {
      var driver = WriteDriver(isOpen: isOpen, "abc", "d")
      driver.admit([], 3)
      driver.finishWriting(4)
      driver.pump([2])
      driver.queue.refuse(SocketError(.connectionReset, operation: "write"))
      driver.queue.refuse(SocketError(.closed, operation: "write"))
      driver.pump([9])
      driver.admit("e", 5)
      driver.pump([9])
      #expect(
        driver.finished == [.init(1, failedAfter: isOpen ? 2 : 0)] + (2...5).map { .init($0, failedAfter: 0) })
      #expect(driver.queue.queuedBytes == 0 && driver.queue.isEmpty && !driver.isShutDown)
    }
  }

  @Test func `A write whose last byte is sent succeeds, though the stream breaks before it leaves`() {
    var driver = WriteDriver()
    driver.admit([[1, 2]], 1)
    driver.admit([[3]], 2)
    driver.admit([[4, 5]], 3)
    driver.pump()
    driver.queue.sent(4)
    driver.queue.refuse(SocketError(.connectionReset, operation: "write"))
    driver.pump()
    #expect(driver.finished == [.init(1), .init(2), .init(3, failedAfter: 1)])
  }

  @Test func `Writes without bytes that are given up behind a stuck write leave nothing`() {
    var queue = WriteQueue<Int>()
    queue.open()
    _ = queue.admit(.pieces([[1, 2, 3]]), 0)
    let given = (1...100).map { number in
      number % 2 == 0 ? queue.admit(.pieces([]), number) : queue.admit(.acknowledgement, number)
    }
    for id in given { #expect(queue.remove(id) != nil) }
    #expect(queue.count == 1 && queue.waiting == 1 && queue.queuedBytes == 3)
  }

  @Test func `Taking the first write back, which has no bytes, leaves the next one where it is`() {
    var queue = WriteQueue<Int>()
    let empty = queue.admit(.pieces([]), 0)
    _ = queue.admit(.pieces([[1, 2, 3], [4, 5]]), 1)
    queue.open()
    queue.sent(4)
    #expect(queue.remove(empty)?.sent == 0)
    while case .begin = queue.step() {}
    let (pieces, offset) = queue.unsent(maximumPieces: 9, maximumBytes: 99)
    #expect(Array(pieces.joined().dropFirst(offset)) == [5] && queue.queuedBytes == 1)
  }

  @Test func `A write that may not be sent is not gathered, nor are those behind it`() {
    var queue = WriteQueue<Int>()
    queue.open()
    for tag in 1...4 { _ = queue.admit(.pieces([[UInt8(tag)]]), tag) }
    let (pieces, _) = queue.unsent(maximumPieces: 10, maximumBytes: 100) { $0 != 3 }
    #expect(Array(pieces) == [[1], [2]])
    // The first one is under way, whatever its time.
    #expect(Array(queue.unsent(maximumPieces: 10, maximumBytes: 100) { _ in false }.pieces) == [[1]])
  }
}
