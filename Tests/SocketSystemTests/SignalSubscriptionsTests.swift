import TestSupport
import Testing

@testable import SocketSystem

@Suite(.tags(.pure)) struct SignalSubscriptionsTests {
  /// The machine, and the counts that the handlers would have.
  private struct Scene {
    var machine = SignalSubscriptions<String>()
    var counts: [ProcessSignal: UInt64] = [:]

    mutating func add(
      _ signals: Set<ProcessSignal>, endingAfter limit: Int? = nil, _ receiver: String
    ) -> (id: UInt64, toTake: [ProcessSignal]) {
      machine.add(signals, endingAfter: limit, receiver) { [counts] in counts[$0] ?? 0 }
    }

    mutating func remove(_ id: UInt64) -> [ProcessSignal] { machine.remove(id).map(\.signal) }

    mutating func arrive(_ signal: ProcessSignal, _ times: UInt64 = 1) { counts[signal, default: 0] += times }

    /// The delivered signals with their receivers, as "SIGHUP a b", and the restored signals with the number of undelivered arrivals.
    mutating func deliver() -> [String] {
      let (arrivals, toRestore) = machine.deliver { [counts] in counts[$0] ?? 0 }
      return arrivals.map { arrival in ([arrival.signal.description] + arrival.receivers).joined(separator: " ") }
        + toRestore.map { "\($0.signal) restored, \((counts[$0.signal] ?? 0) - $0.delivered) left" }
    }
  }

  @Test func `A signal is taken over by its first subscription, and restored after its last`() {
    var scene = Scene()
    let first = scene.add([.terminate, .hangup], "a")
    #expect(first.toTake == [.hangup, .terminate])
    let second = scene.add([.terminate, .user1], "b")
    #expect(second.toTake == [.user1])
    #expect(scene.machine.taken == [.hangup, .terminate, .user1])
    #expect(scene.remove(first.id) == [.hangup])
    #expect(scene.remove(first.id) == [])
    #expect(scene.remove(second.id) == [.user1, .terminate])
    #expect(scene.machine.taken == [])
  }

  @Test func `Every subscription hears of each signal that it names, once`() {
    var scene = Scene()
    _ = scene.add([.terminate, .hangup], "a")
    _ = scene.add([.terminate], "b")
    scene.arrive(.terminate)
    #expect(scene.deliver() == ["SIGTERM a b"])
    #expect(scene.deliver() == [])
    scene.arrive(.hangup, 2)
    scene.arrive(.user1)
    #expect(scene.deliver() == ["SIGHUP a", "SIGHUP a"])
  }

  @Test func `Signals that are found together come in the order of their numbers`() {
    var scene = Scene()
    _ = scene.add([.terminate, .interrupt, .hangup], "a")
    for signal in [ProcessSignal.terminate, .hangup, .interrupt] { scene.arrive(signal) }
    #expect(scene.deliver() == ["SIGHUP a", "SIGINT a", "SIGTERM a"])
  }

  @Test func `A signal that arrives before it is taken over, or after its end, is not delivered`() {
    var scene = Scene()
    scene.arrive(.hangup, 3)
    let first = scene.add([.hangup], "a")
    #expect(scene.deliver() == [])
    scene.arrive(.hangup)
    #expect(scene.remove(first.id) == [.hangup])
    #expect(scene.deliver() == [])
    _ = scene.add([.hangup], "b")
    #expect(scene.deliver() == [])
    scene.arrive(.hangup)
    #expect(scene.deliver() == ["SIGHUP b"])
  }

  @Test func `A flood of signals is delivered in part`() {
    var scene = Scene()
    _ = scene.add([.user1], "a")
    scene.arrive(.user1, 1_000_000)
    #expect(scene.deliver().count == 64)
    #expect(scene.deliver() == [])
  }

  @Test func `A subscription to nothing changes nothing`() {
    var scene = Scene()
    let nothing = scene.add([], "a")
    #expect(nothing.toTake == [] && scene.machine.taken == [])
    #expect(scene.remove(nothing.id) == [])
  }

  @Test func `A subscription that ends after some arrivals counts all of its signals together`() {
    var scene = Scene()
    _ = scene.add([.terminate, .interrupt], endingAfter: 2, "a")
    scene.arrive(.interrupt)
    #expect(scene.deliver() == ["SIGINT a"])
    scene.arrive(.terminate)
    #expect(scene.deliver() == ["SIGTERM a", "SIGINT restored, 0 left", "SIGTERM restored, 0 left"])
    #expect(scene.machine.taken == [])
  }

  @Test func `Arrivals that are not delivered are left for the previous handling`() {
    var scene = Scene()
    _ = scene.add([.terminate, .interrupt], endingAfter: 2, "a")
    scene.arrive(.interrupt, 2)
    scene.arrive(.terminate)
    #expect(scene.deliver() == ["SIGINT a", "SIGINT a", "SIGINT restored, 0 left", "SIGTERM restored, 1 left"])

    let second = scene.add([.terminate], "b")
    scene.arrive(.terminate)
    #expect(scene.machine.remove(second.id).map(\.delivered) == [1])
  }

  @Test func `A subscription that has ended leaves its signals to the others`() {
    var scene = Scene()
    let first = scene.add([.terminate], endingAfter: 1, "a")
    _ = scene.add([.terminate], "b")
    scene.arrive(.terminate, 2)
    #expect(scene.deliver() == ["SIGTERM a b", "SIGTERM b"])
    #expect(scene.remove(first.id) == [])
    #expect(scene.machine.taken == [.terminate])
  }
}
