// When something last happened to a socket, without reading the clock each time that it happens. What happens in an iteration of
// the loop is noted once, and gets its time when the iteration ends. So the time is never before the event, and behind it by no
// more than the rest of that iteration.

/// The time of the last event of a kind.
package final class Activity {
  private let loop: EventLoop
  private var time: Int64
  private var isOfThisIteration = false

  /// Something happened now.
  package init(on reactor: Reactor) {
    loop = reactor.loop
    time = reactor.loop.now
  }

  /// Something happens.
  package func note() {
    loop.assertCurrent()
    if isOfThisIteration { return }
    isOfThisIteration = true
    loop.activities.append(self)
  }

  /// When it happened last, on the reactor's clock.
  package var last: Int64 { isOfThisIteration ? loop.now : time }

  func settle(_ now: Int64) {
    isOfThisIteration = false
    time = now
  }
}

extension EventLoop {
  /// Gives the events of this iteration their time.
  func settleActivities() {
    if activities.isEmpty { return }
    let now = self.now
    for activity in activities { activity.settle(now) }
    activities.removeAll(keepingCapacity: activities.capacity <= Self.keptActivities)
  }

  private static var keptActivities: Int { 1024 }
}
