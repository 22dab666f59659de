import ActorSocketsTesting
import EpollReactor
import Foundation
import TestSupport

@testable import ActorSockets

extension LimitBoundaries {
  static let inspections: [LimitBoundary] = [
    .most("places of a reactor's table that an inspection looks at in one job") { count in
      let reactor = Reactor()
      // Each listener has one place.
      let listeners = (0..<count).map { _ in InMemoryListener(reactor: reactor) }
      let looked = Gate()
      let isOnePortion = Notes<Bool>()
      let listed = Reactor().related.first { $0.isOf(reactor.loop) }
      _ = listed?.visitTable(from: 0, most: Inspection.portion, askedAt: 1, { _, _ -> Int? in nil }) { _, next in
        isOnePortion.add(next == nil)
        looked.open()
      }
      await looked.wait()
      withExtendedLifetime(listeners) {}
      return isOnePortion.all == [true]
    },
    .most("operations that an inspection shows of each queue of a socket") { count in
      let (near, far) = InMemoryConnection.pair()
      near.label = "limit \(UInt64.random(in: 0 ... .max))"
      let handles = (0..<count).map { _ in near.enqueueRead(.exactly(1)) }
      let lines = try await Inspection.report()
      let line = lines.first { line in near.label.map { line.contains($0) } ?? false }
      let shown = line?.components(separatedBy: "read exactly").count ?? 0
      withExtendedLifetime((far, handles)) {}
      return shown - 1 == count
    },
  ]
}
