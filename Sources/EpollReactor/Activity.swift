// When something last happened to a socket, without reading the clock for each event. Events in one iteration of the loop are recorded
// once, and get their time when the iteration ends. So the time is never before the event, and after it by at most the rest of that
// iteration.

package final class Activity {
  private let loop: EventLoop
  private var time: Int64
  private var isOfThisIteration = false

  package init(on reactor: Reactor) {
    loop = reactor.loop
    time = reactor.loop.now
  }

  package func note() {
    loop.assertCurrent()
    if isOfThisIteration { return }
    isOfThisIteration = true
    loop.activities.append(self)
  }

  /// On the reactor's clock.
  package var last: Int64 { isOfThisIteration ? loop.now : time }

  func setTime(_ now: Int64) {
    isOfThisIteration = false
    time = now
  }
}

extension EventLoop {
  func setActivityTimes() {
    if activities.isEmpty { return }
    let now = self.now
    for activity in activities { activity.setTime(now) }
    activities.removeAll(keepingCapacity: activities.capacity <= Self.keptActivities)
  }

  private static var keptActivities: Int { 1024 }
}
