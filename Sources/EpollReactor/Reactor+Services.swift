package import SocketSystem

// The services of a reactor that all of its sockets share: the clock, the number of the iteration, and memory to receive and send
// with. A socket reaches them through `Registration.reactor`. The state of a single socket is in its `Registration`.
//
// A small wrapper that holds the loop would be clearer. But each use would retain the loop, which was measured at 5 percent of the
// instructions of an echo. For the same reason every operation reads the iteration from its
// registration, below: through the reactor, each access would cost 20 instructions more.

extension Reactor {
  // MARK: Time

  /// Nanoseconds on the reactor's clock, from which deadlines are counted. Any thread.
  package var now: Int64 { loop.now }

  /// The number of turns of the queue after which a deadline can conclude that no call was made in time. A task that waits in the queue
  /// may call another actor, and that actor may call the one with the deadline. Manual time advances in a call, which has already run after
  /// the calls made in time. Any thread.
  package var turnsBeforeIdle: Int { loop.host.isManual ? 0 : 3 }

  // MARK: Memory for the bytes of a stream

  /// The most bytes that one receive into the scratch memory brings.
  package static var scratchCapacity: Int { LoopMemory.scratchSize }

  /// Receives into the scratch memory: recv(2). The bytes stay there until the next receive; see `withScratch`.
  package func receiveIntoScratch(from socket: BorrowedDescriptor, atMost limit: Int = .max) -> Transfer {
    loop.assertCurrent()
    return loop.memory.scratch().receive(from: socket, atMost: limit)
  }

  /// Receives by way of the scratch memory to the end of an array, whose capacity then fits: recv(2).
  package func receive(from socket: BorrowedDescriptor, appendingTo bytes: inout [UInt8]) -> Transfer {
    loop.assertCurrent()
    return loop.memory.scratch().receive(from: socket, appendingTo: &bytes)
  }

  /// Receives into the scratch memory: recvmsg(2). Descriptors that arrive with the bytes go to the inbox.
  package func receiveIntoScratch(from socket: BorrowedDescriptor, _ inbox: DescriptorInbox) -> Transfer {
    loop.assertCurrent()
    return loop.memory.scratch().receive(from: socket, inbox)
  }

  /// Shows the first `count` bytes of the scratch memory. A receive from within `body` gets other memory.
  package func withScratch<Result>(_ count: Int, _ body: (Span<UInt8>) throws -> Result) rethrows -> Result {
    loop.assertCurrent()
    let scratch = loop.memory.scratch()
    loop.memory.scratches.lend()
    defer { loop.memory.scratches.giveBack() }
    return try scratch.withBytes(count, body)
  }

  // MARK: Memory for datagrams

  /// Memory to receive or send several datagrams with one call; `nil` if the memory cannot be allocated.
  package func datagramBatch() -> DatagramBatch? {
    loop.assertCurrent()
    return loop.memory.batch()
  }

  /// Runs a closure of the user's that sees the batch. A send or receive from within `body` gets another batch.
  package func whileBatchIsRead<Result>(_ body: () throws -> Result) rethrows -> Result {
    loop.memory.batches.lend()
    defer { loop.memory.batches.giveBack() }
    return try body()
  }
}

extension Registration {
  /// The number of the loop's iteration. A socket has its budget once in each.
  package var tick: Int { reactor.loop.iteration.number }

  /// When the iteration began, on the reactor's clock. It does not read the clock.
  package var tickTime: Int64 { reactor.loop.tickTime }
}
