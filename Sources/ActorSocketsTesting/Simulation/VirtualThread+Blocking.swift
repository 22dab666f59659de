// What a simulation cannot do for its program: let a thread sleep, and wait for other threads.
//
// Invariants:
// - A call that lets the thread sleep returns at once, and the simulation fails: no time would pass meanwhile. The clock moves by the length
//   of the sleep, so a program that sleeps until a time has come continues. If a program sleeps again and again, the process ends.
// - The helpers that the program has used are in the error of a deadlock, of which they may be the reason. They are not in the trace: when a
//   library starts a thread may depend on what the process did before.

internal import ActorSockets
internal import SocketSystem

/// What works on threads of its own, so that a simulation does not wait for it.
enum Helper: Int32 {
  // The numbers are those of CVirtualTime.
  case threads, dispatch
  /// A thread that does not belong to the simulation, and that has resumed one of its tasks.
  case outside

  var sentence: String {
    switch self {
    case .threads: "the program has started threads"
    case .dispatch: "the program has used Dispatch"
    case .outside: "other threads have resumed tasks of the program"
    }
  }
}

extension VirtualThread {
  /// For example `seed 3, at 1.250000000 s`.
  var place: String { "seed \(simulation?.seed ?? 0), at \(SimulationTrace.seconds(elapsed))" }

  fileprivate func sleeps(for nanoseconds: Int64) {
    let host = hosts[currentOwner.host].name
    let sentence = "the program lets its thread sleep, and nothing else could run; use Task.sleep"
    if refusesSleep() { abort(sentence, on: currentOwner.host) }
    let error = SimulationError(.unsupported, "\(place), on \(host): \(sentence)", at: elapsed)
    clock.nanoseconds = instant(clock.nanoseconds, plus: max(0, nanoseconds))
    programFailed(error)
  }

  /// A sentence for each, of which one may be the reason why nothing is left to run.
  var helpers: [String] { outside.sentences.map { "\($0), for which a simulation does not wait" } }

  /// Ends the process. Called by the thread that watches, or by this one.
  func abort(_ reason: String, on host: Int) -> Never {
    clock.abort("\(place), on \(outside.name(of: host)): \(reason)")
  }
}

/// Called by CVirtualTime on the thread of a simulation.
@_cdecl("actorsockets_thread_sleeps")
func threadSleeps(_ nanoseconds: Int64) { VirtualThread.current?.sleeps(for: nanoseconds) }

/// Called by CVirtualTime on the thread of a simulation.
@_cdecl("actorsockets_uses")
func programUses(_ helper: Int32) {
  if let helper = Helper(rawValue: helper) { VirtualThread.current?.outside.used(helper) }
}
