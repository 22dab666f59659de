package import SocketSystem

// What all sockets of a reactor share. A socket reaches it through `Registration.reactor`.
//
// A small wrapper that holds the loop would be clearer. But each use would retain the loop, which was measured at 5 percent of the
// instructions of an echo. For the same reason every operation reads the iteration from its registration, below: through the reactor,
// each access would cost 20 instructions more.

extension Reactor {
  // MARK: Time

  /// In nanoseconds, on the clock of the deadlines. Any thread.
  package var now: Int64 { loop.now }

  /// The number of turns of the queue after which a deadline can conclude that no call was made in time. A task that waits in the queue
  /// may call another actor, and that actor may call the one with the deadline. Manual time advances in a call, which has already run
  /// after the calls made in time. Any thread.
  package var turnsBeforeIdle: Int { loop.host.isManual ? 0 : 3 }

  // MARK: Memory for the bytes of a stream

  package static var scratchCapacity: Int { LoopMemory.scratchSize }

  /// recv(2). The bytes stay in the scratch memory until the next receive; see `withScratch`.
  package func receiveIntoScratch(from socket: BorrowedDescriptor, atMost limit: Int = .max) -> Transfer {
    loop.assertCurrent()
    return loop.memory.scratch().receive(from: socket, atMost: limit)
  }

  /// recv(2), by way of the scratch memory, so that an empty array gets no more capacity than it needs.
  package func receive(from socket: BorrowedDescriptor, appendingTo bytes: inout [UInt8]) -> Transfer {
    loop.assertCurrent()
    return loop.memory.scratch().receive(from: socket, appendingTo: &bytes)
  }

  /// recvmsg(2). Descriptors that arrive with the bytes go to the inbox.
  package func receiveIntoScratch(from socket: BorrowedDescriptor, _ inbox: DescriptorInbox) -> Transfer {
    loop.assertCurrent()
    return loop.memory.scratch().receive(from: socket, inbox)
  }

  /// Shows the first `count` bytes. A receive from within `body` gets other memory.
  package func withScratch<Result>(_ count: Int, _ body: (Span<UInt8>) throws -> Result) rethrows -> Result {
    loop.assertCurrent()
    let scratch = loop.memory.scratch()
    loop.memory.scratches.lend()
    defer { loop.memory.scratches.giveBack() }
    return try scratch.withBytes(count, body)
  }

  // MARK: Memory for datagrams

  /// `nil` if the memory cannot be allocated.
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
  /// A socket has its budget once in each iteration of the loop.
  package var tick: Int { reactor.loop.iteration.number }

  /// Calls that were resumed run soon if large receives are many.
  @inline(__always)
  package func received(_ count: Int) {
    if count >= 4096 { reactor.loop.running.largeReceives += count }
  }

  /// When the iteration began, on the reactor's clock, but without reading the clock.
  package var tickTime: Int64 { reactor.loop.tickTime }
}
