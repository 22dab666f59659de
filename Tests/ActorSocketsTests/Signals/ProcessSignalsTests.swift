import ActorSockets
import EpollReactor
import Foundation
import SocketSystem
import TestSupport
import Testing

/// Signals that come to a process. Each test is a process of its own, because the handling of a signal is one of all tests.
@Suite struct ProcessSignalsTests {
  @Test func `The sequence has each signal that comes, and the signal does nothing else`() async {
    await #expect(processExitsWith: .success) {
      try await within("the signals are there") {
        var signals = try ProcessSignals([.terminate, .hangup]).makeAsyncIterator()
        for signal in [SIGTERM, SIGHUP, SIGTERM, SIGTERM] {
          kill(getpid(), signal)
          #expect(await signals.next()?.rawValue == signal)
        }
      }
    }
  }

  @Test func `A signal that comes before anybody waits is not lost`() async {
    await #expect(processExitsWith: .success) {
      try await within("the signal is there") {
        let signals = try ProcessSignals([.user1])
        kill(getpid(), SIGUSR1)
        try await onThread {}
        for await signal in signals {
          #expect(signal == .user1)
          break
        }
      }
    }
  }

  @Test func `Two sequences and an iterator each get the signal`() async {
    await #expect(processExitsWith: .success) {
      try await within("all get it") {
        var one = try ProcessSignals([.user1]).makeAsyncIterator()
        var other = try ProcessSignals([.user1, .user2]).makeAsyncIterator()
        kill(getpid(), SIGUSR1)
        #expect(await one.next() == .user1)
        #expect(await other.next() == .user1)
        kill(getpid(), SIGUSR2)
        #expect(await other.next() == .user2)
      }
    }
  }

  @Test func `Cancellation ends the sequence`() async {
    await #expect(processExitsWith: .success) {
      try await within("it ends") {
        let signals = try ProcessSignals([.user1])
        let waiting = Task { for await _ in signals {} }
        waiting.cancel()
        await waiting.value
      }
    }
  }

  @Test func `When the sequence is gone, the signal ends the process again`() async {
    await #expect(processExitsWith: .signal(SIGTERM)) {
      try await within("the process ends") {
        var signals: ProcessSignals.Iterator? = try ProcessSignals([.terminate]).makeAsyncIterator()
        kill(getpid(), SIGTERM)
        #expect(await signals?.next() == .terminate)
        signals = nil
        try await eventually("the default is restored") { handling(of: SIGTERM) == .default }
        kill(getpid(), SIGTERM)
        try await eventually("the signal has ended the process") { false }
      }
    }
  }

  @Test func `The handling that a signal had before is restored, but not over that of others`() async {
    await #expect(processExitsWith: .success) {
      try await within("it is restored") {
        signal(SIGUSR1, SIG_IGN)
        var signals: ProcessSignals? = try ProcessSignals([.user1, .user2])
        #expect(handling(of: SIGUSR1) == .handler && handling(of: SIGUSR2) == .handler)
        signal(SIGUSR2, SIG_IGN)
        withExtendedLifetime(signals) {}
        signals = nil
        try await eventually("it is restored") { handling(of: SIGUSR1) == .ignored }
        #expect(handling(of: SIGUSR2) == .ignored)
        // Later sequences begin anew.
        var again = try ProcessSignals([.user2]).makeAsyncIterator()
        kill(getpid(), SIGUSR2)
        #expect(await again.next() == .user2)
      }
    }
  }

  @Test func `Without a free descriptor, signals are not taken over, and later they are`() async {
    await #expect(processExitsWith: .success) {
      try await within("they are taken over") {
        _ = Reactor.shared
        let before = setDescriptorLimit(0)
        await expectError(.tooManyOpenFiles) { _ = try ProcessSignals([.user1]) }
        #expect(handling(of: SIGUSR1) == .default)
        setDescriptorLimit(before)
        var signals = try ProcessSignals([.user1]).makeAsyncIterator()
        kill(getpid(), SIGUSR1)
        #expect(await signals.next() == .user1)
      }
    }
  }

  @Test func `Calls that a signal interrupts go on`() async {
    await #expect(processExitsWith: .success) {
      try await within("the read goes on") {
        var signals = try ProcessSignals([.user1]).makeAsyncIterator()
        let pipe = Pipe()
        let thread = Locked<pthread_t?>(nil)
        let isReading = Gate()
        let reading = Task {
          try await onThread { () -> Int in
            // Threads of the framework block all signals.
            var all = sigset_t()
            // SAFETY: the set is valid for the calls.
            unsafe sigfillset(&all)
            unsafe pthread_sigmask(SIG_UNBLOCK, &all, nil)
            thread.withLock { $0 = pthread_self() }
            isReading.open()
            return pipe.fileHandleForReading.availableData.count
          }
        }
        await isReading.wait()
        let reader = try #require(thread.withLock { $0 })
        for _ in 0..<100 {
          pthread_kill(reader, SIGUSR1)
          #expect(await signals.next() == .user1)
        }
        try pipe.fileHandleForWriting.write(contentsOf: Data([1, 2, 3]))
        #expect(try await reading.value == 3)
      }
    }
  }
}
