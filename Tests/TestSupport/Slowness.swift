import Dispatch
import SocketSystem

/// How many times longer a fixed amount of work takes now than on an idle machine of 3 GHz, in a build without optimization: 1 to 6. With
/// more, a call that never returns would hold up the others for too long.
///
/// It is measured once in a process, on a thread of its own, because the clock of this thread may be that of a simulation.
let slowness: Int = {
  let milliseconds = Locked(0)
  let isDone = DispatchSemaphore(value: 0)
  do {
    try startThread(name: "yardstick") {
      milliseconds.withLock { $0 = timeOfWork() }
      isDone.signal()
    }
  } catch {
    return 1
  }
  isDone.wait()
  return min(6, milliseconds.withLock { $0 } / usualTimeOfWork + 1)
}()

/// The milliseconds of `timeOfWork` on an idle machine of 3 GHz, and a little more. With the thread sanitizer they are six times that.
private let usualTimeOfWork = 20

/// The milliseconds that the work takes: numbers in an array and in a dictionary, which sanitizers and other work slow down as they do tests.
private func timeOfWork() -> Int {
  let start = ContinuousClock.now
  var random = SeededRandom(seed: 1)
  var counts: [UInt64: Int] = [:]
  for _ in 0..<100_000 { counts[random.next() % 64, default: 0] += 1 }
  precondition(counts.values.reduce(0, +) == 100_000)
  return Int((ContinuousClock.now - start) / .milliseconds(1))
}
