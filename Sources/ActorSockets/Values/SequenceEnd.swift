package import EpollReactor

/// The instant at which a sequence ends, on the clock of a reactor.
@usableFromInline
package struct SequenceEnd: Equatable, Sendable {
  @usableFromInline let nanoseconds: Int64

  @usableFromInline static let never = SequenceEnd(nanoseconds: .max)

  init(nanoseconds: Int64) { self.nanoseconds = nanoseconds }

  /// The earlier of the two.
  init(at deadline: ContinuousClock.Instant, or other: SequenceEnd = .never) {
    nanoseconds = min(Timeout.until(deadline).nanoseconds, other.nanoseconds)
  }

  @usableFromInline
  func hasPassed(on executor: ReactorExecutor) -> Bool { nanoseconds <= executor.reactor.now }
}
