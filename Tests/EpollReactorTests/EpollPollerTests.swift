import Foundation
import Glibc
import Synchronization
import TestSupport
import Testing

@testable import SocketSystem

@Suite struct EpollPollerTests {
  @Test func `A reactor that cannot be woken ends the program with a message, and does not sleep for ever`() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let poller = try EpollPoller()
      close(poller.event.number)
      poller.wake()
    }
    let said = result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
    #expect(said.contains("a sleeping reactor cannot be woken"), "\(said)")
  }

  @Test func `A wake-up that is interrupted is made again`() async {
    await #expect(processExitsWith: .success) {
      try await within("the wake-up is made") {
        let poller = try EpollPoller()
        // A full counter that blocks: the write waits, and a signal interrupts it.
        #expect(fcntl(poller.event.number, F_SETFL, 0) == 0)
        var counter = UInt64.max - 1
        let written = unsafe write(poller.event.number, &counter, 8)
        #expect(written == 8)
        // Unlike signal(3), it lets no call go on by itself.
        var action = sigaction()
        unsafe action.__sigaction_handler.sa_handler = { _ in interruptions.add(1, ordering: .relaxed) }
        unsafe sigaction(SIGUSR1, &action, nil)
        let thread = Locked<pthread_t?>(nil)
        let isMade = Gate()
        let number = poller.event.number
        let made = SharedPoller(poller)
        try startThread(name: "waker") {
          var signals = sigset_t()
          unsafe sigemptyset(&signals)
          unsafe sigaddset(&signals, SIGUSR1)
          unsafe pthread_sigmask(SIG_UNBLOCK, &signals, nil)
          thread.withLock { $0 = pthread_self() }
          made.poller.wake()
          isMade.open()
        }
        try await eventually("the write waits") {
          // The first argument of the call that each thread is in: proc(5).
          try FileManager.default.contentsOfDirectory(atPath: "/proc/self/task").contains { id in
            let name = try? String(contentsOfFile: "/proc/self/task/\(id)/comm", encoding: .utf8)
            let call = try? String(contentsOfFile: "/proc/self/task/\(id)/syscall", encoding: .utf8)
            return name == "waker\n" && call?.contains(" 0x\(String(number, radix: 16)) ") == true
          }
        }
        if let thread = thread.withLock({ $0 }) { pthread_kill(thread, SIGUSR1) }
        try await eventually("it is interrupted") { interruptions.load(ordering: .relaxed) == 1 }
        unsafe read(number, &counter, 8)
        #expect(counter == UInt64.max - 1)
        await isMade.wait()
        #expect(fcntl(number, F_SETFL, O_NONBLOCK) == 0)
        unsafe read(number, &counter, 8)
        #expect(counter == 1)
      }
    }
  }
}

/// How often the handler of the signal was called.
private let interruptions = Atomic<Int>(0)

private final class SharedPoller: @unchecked Sendable {
  // SAFETY (@unchecked Sendable): a poller may be woken on any thread.
  let poller: EpollPoller
  init(_ poller: EpollPoller) { self.poller = poller }
}
