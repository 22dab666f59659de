internal import ActorSockets
internal import CoreMetrics
internal import Synchronization

/// Why a connection has ended, as the value of a dimension.
enum ClosingReason: String, CaseIterable {
  case local, remote, reset, timedOut, peerTooSlow, error

  init(_ reason: CloseReport.Reason) {
    self =
      switch reason {
      case .local: .local
      case .remote: .remote
      case .reset: .reset
      case .timedOut: .timedOut
      case .peerTooSlow: .peerTooSlow
      case .error: .error
      // A reason that this program does not know yet.
      @unknown default: .error
      }
  }
}

/// Counters of connections that did not come up: one for each code of an error, made when it is first needed.
final class FailureCounters: Sendable {
  private let label: String
  private let factory: any MetricsFactory
  private let counters = Mutex<[SocketError.Code: Counter]>([:])

  init(label: String, _ factory: any MetricsFactory) {
    self.label = label
    self.factory = factory
  }

  func count(_ code: SocketError.Code) {
    let counter = counters.withLock { counters in
      if let counter = counters[code] { return counter }
      let counter = Counter(label: label, dimensions: [("error.type", code.description)], factory: factory)
      counters[code] = counter
      return counter
    }
    counter.increment()
  }
}
