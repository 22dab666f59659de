import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct StreamLifecycleTests {
  typealias Actions = StreamLifecycle.Actions

  enum Event: CaseIterable {
    case up, peerFinished, broken, brokenBehindTheEnd, close, closeAfterReads, closeAfterWrites, userCloses
    case readToTheEnd
    case readsDrained, allDrained, allDrainedButFlushes, transportGone, idle, idleWithWrites, abort, end
    case tailAlone, tailMoved, tailDeadline
  }

  private static let reset = SocketError(.connectionReset, operation: "read")
  private static let other = SocketError(.system, operation: "read")

  private static let states: [String: [Event]] = [
    "connecting": [],
    "connecting, to finish": [.closeAfterWrites],
    "open": [.up],
    "open, tail timed": [.up, .tailAlone],
    "open, tail released": [.up, .tailAlone, .tailDeadline],
    "open, peer finished": [.up, .peerFinished],
    "open, broken": [.up, .broken],
    "open, writes lost": [.up, .peerFinished, .brokenBehindTheEnd],
    "finishing reads": [.up, .closeAfterReads],
    "finishing writes": [.up, .closeAfterWrites],
    "flushing": [.up, .close],
    "flushing at the end": [.up, .peerFinished, .readToTheEnd],
    "flushing for a layer": [.up, .close],
    "lingering": [.up, .close, .allDrained],
    "released": [.end],
    "released in order": [.up, .close, .allDrained, .transportGone],
  ]

  /// The effect of each event in each state: the phase afterwards, the reason of a report that is made, and the actions. The events
  /// that are not listed change nothing.
  private static let table: [String: [Event: String]] = [
    "connecting": alive(
      "connecting",
      [
        .up: "open: announce startIdleWatch openQueues",
        .close: "released, local: stopIdleWatch disarmDeadline giveUp END",
        .closeAfterReads: "finishing(pendingReads): recheckQueues",
        .closeAfterWrites: "finishing(pendingWrites): recheckQueues",
      ]),
    "connecting, to finish": alive(
      "finishing(pendingWrites)",
      [
        .up: "finishing(pendingWrites): announce startIdleWatch armCloseDeadline openQueues",
        .close: "released, local: stopIdleWatch disarmDeadline giveUp END",
        .allDrained: "released, local: stopIdleWatch disarmDeadline giveUp END",
      ]),
    "open": alive(
      "open",
      [
        .close: "flushing: armCloseDeadline refuseReads pump",
        .closeAfterReads: "finishing(pendingReads): recheckQueues",
        .closeAfterWrites: "finishing(pendingWrites): armCloseDeadline recheckQueues",
        .tailAlone: "open: armTailDeadline",
      ]),
    "open, tail timed": alive(
      "open",
      [
        .close: "flushing: disarmDeadline armCloseDeadline refuseReads pump",
        .closeAfterReads: "finishing(pendingReads): disarmDeadline recheckQueues",
        .closeAfterWrites: "finishing(pendingWrites): disarmDeadline armCloseDeadline recheckQueues",
        .idle: "flushing, timedOut: disarmDeadline refuseWrites report refuseReads pump",
        .tailMoved: "open: disarmDeadline",
        .tailDeadline: "open: resetWhenDropped recheckQueues",
      ]),
    "open, tail released": alive(
      "open",
      [
        .close: "flushing: armCloseDeadline closeWhenDropped refuseReads pump",
        .closeAfterReads: "finishing(pendingReads): closeWhenDropped recheckQueues",
        .closeAfterWrites: "finishing(pendingWrites): armCloseDeadline closeWhenDropped recheckQueues",
        .idle: "flushing, timedOut: closeWhenDropped refuseWrites report refuseReads pump",
        .idleWithWrites: "released, timedOut: stopIdleWatch disarmDeadline closeWhenDropped reset END",
        .abort: "released, local: stopIdleWatch disarmDeadline closeWhenDropped reset END expireNow",
        .end: "released, timedOut: stopIdleWatch disarmDeadline closeWhenDropped reset END",
        .tailMoved: "open: closeWhenDropped",
      ]),
    "open, peer finished": atPeersEnd,
    "open, broken": [
      .close: "released: stopIdleWatch disarmDeadline reset refuseWrites failFlushes refuseReads pump release",
      .closeAfterReads: "finishing(pendingReads): recheckQueues",
      .closeAfterWrites: "finishing(pendingWrites): recheckQueues",
      .idle: "flushing: refuseWrites refuseReads pump",
      .idleWithWrites: "released: stopIdleWatch disarmDeadline reset refuseWrites failFlushes refuseReads pump release",
      .abort:
        "released: stopIdleWatch disarmDeadline reset refuseWrites failFlushes refuseReads pump release expireNow",
      .end: "released: stopIdleWatch disarmDeadline reset refuseWrites failFlushes refuseReads pump release",
    ],
    "open, writes lost": atPeersEnd,
    "finishing reads": alive(
      "finishing(pendingReads)",
      [
        .close: "flushing: armCloseDeadline refuseReads pump",
        .readsDrained: "flushing: armCloseDeadline refuseReads pump",
        .allDrained: "flushing: armCloseDeadline refuseReads pump",
        .allDrainedButFlushes: "flushing: armCloseDeadline refuseReads pump",
      ]),
    "finishing writes": alive(
      "finishing(pendingWrites)",
      [
        .close: "flushing: armCloseDeadline refuseReads pump",
        .allDrained: "flushing: armCloseDeadline refuseReads pump",
      ]),
    "flushing": alive(
      "flushing",
      [
        .allDrained: "lingering: stopIdleWatch disarmDeadline failFlushes linger",
        .allDrainedButFlushes: "lingering: stopIdleWatch disarmDeadline failFlushes linger",
        .idle: "released, timedOut: stopIdleWatch disarmDeadline reset END",
      ]),
    "flushing at the end": alive(
      "flushing", peerHasFinished: true,
      [
        .userCloses: "flushing: refuseReads pump",
        .allDrained: "lingering: stopIdleWatch disarmDeadline failFlushes linger",
        .allDrainedButFlushes: "lingering: stopIdleWatch disarmDeadline failFlushes linger",
        .idle: "released, timedOut: stopIdleWatch disarmDeadline reset END",
      ]),
    "flushing for a layer": alive(
      "flushing",
      [
        .allDrained: "lingering: stopIdleWatch disarmDeadline failFlushes linger",
        .allDrainedButFlushes: "lingering: stopIdleWatch disarmDeadline failFlushes linger",
        .idle: "released, timedOut: stopIdleWatch disarmDeadline reset END",
        .abort: "flushing: shortenCloseDeadline",
      ]),
    "lingering": [
      .peerFinished: "lingering: tellOfPeerEnd recheckQueues",
      .broken: "lingering, reset: refuseWrites report failFlushes",
      .brokenBehindTheEnd: "lingering: refuseWrites failFlushes pump",
      .transportGone: "released, local: disarmDeadline report release",
      .abort: "released, local: stopIdleWatch disarmDeadline reset END expireNow",
      .end: "released, timedOut: stopIdleWatch disarmDeadline reset END",
    ],
    "released": ended,
    "released in order": ended,
  ]

  private static let atPeersEnd = alive(
    "open", peerHasFinished: true,
    [
      .close: "flushing: armCloseDeadline refuseReads pump",
      .closeAfterReads: "finishing(pendingReads): recheckQueues",
      .closeAfterWrites: "finishing(pendingWrites): armCloseDeadline recheckQueues",
      .readToTheEnd: "flushing: armCloseDeadline endReads pump",
      .tailAlone: "open: armTailDeadline",
    ])

  /// The rows of a state in which the stream has a connection: its own, and those that most such states have.
  private static func alive(
    _ phase: String, peerHasFinished: Bool = false, _ own: [Event: String]
  ) -> [Event: String] {
    let ends = "released, timedOut: stopIdleWatch disarmDeadline reset END"
    var common: [Event: String] = [
      .broken: "\(phase), reset: refuseWrites report failFlushes",
      .brokenBehindTheEnd: "\(phase): refuseWrites failFlushes pump",
      .idle: "flushing, timedOut: refuseWrites report refuseReads pump", .idleWithWrites: ends, .end: ends,
      .abort: "released, local: stopIdleWatch disarmDeadline reset END expireNow",
    ]
    if !peerHasFinished { common[.peerFinished] = "\(phase): tellOfPeerEnd recheckQueues" }
    return common.merging(own) { $1 }
  }

  private static let ended: [Event: String] = [
    .peerFinished: "released: tellOfPeerEnd recheckQueues",
    .transportGone: "released: notifyReleased",
    .abort: "released: expireNow",
  ]

  private static func state(_ name: String) -> StreamLifecycle {
    var lifecycle = StreamLifecycle()
    for event in states[name] ?? [] { _ = happens(event, to: &lifecycle) }
    if name == "flushing for a layer" { lifecycle.layerLetGo(hasFailed: true) }
    return lifecycle
  }

  private static func happens(_ event: Event, to lifecycle: inout StreamLifecycle) -> Actions {
    let traffic = StreamTraffic(received: 3, sent: 2, unsent: 1)
    return switch event {
    case .up: lifecycle.wentUp()
    case .peerFinished: lifecycle.peerFinished()
    case .broken: lifecycle.broke(reset, endWasFound: false, traffic)
    case .brokenBehindTheEnd: lifecycle.broke(reset, endWasFound: true, traffic)
    case .close: lifecycle.closeRequested(traffic)
    case .closeAfterReads: lifecycle.closeRequested(after: .pendingReads)
    case .closeAfterWrites: lifecycle.closeRequested(after: .pendingWrites)
    case .userCloses: lifecycle.userCloses()
    case .readToTheEnd: lifecycle.readToEnd(traffic)
    case .readsDrained: lifecycle.drained(reads: true, writes: false, flushes: true, traffic)
    case .allDrained: lifecycle.drained(reads: true, writes: true, flushes: true, traffic)
    case .allDrainedButFlushes: lifecycle.drained(reads: true, writes: true, flushes: false, traffic)
    case .transportGone: lifecycle.transportGone(traffic)
    case .idle: lifecycle.idle(other, writes: true, traffic)
    case .idleWithWrites: lifecycle.idle(other, writes: false, traffic)
    case .abort: lifecycle.abortRequested(traffic)
    case .end: lifecycle.end(other, .timedOut, traffic)
    case .tailAlone: lifecycle.tailRemains(isAlone: true)
    case .tailMoved: lifecycle.tailMoved()
    case .tailDeadline: lifecycle.tailDeadlineReached()
    }
  }

  @Test(arguments: states.keys.sorted(), Event.allCases)
  func `Every event does in every state what the table says`(name: String, event: Event) {
    var lifecycle = Self.state(name)
    let before = "\(lifecycle.phase)"
    let hadReport = lifecycle.report != nil
    let actions = Self.happens(event, to: &lifecycle)
    var text = Self.text(lifecycle.phase)
    if !hadReport, let report = lifecycle.report { text += ", \(report.reason)" }
    text += ": " + Self.text(actions)
    if let expected = Self.table[name]?[event] {
      #expect(text == expected.replacing("END", with: Self.ending))
    } else {
      #expect(actions.isEmpty && before == "\(lifecycle.phase)", "\(text)")
    }
  }

  @Test(arguments: [Event.broken, .brokenBehindTheEnd])
  func `A stream that has closed does not throw what its peer does afterwards`(event: Event) {
    var lifecycle = Self.state("released in order")
    _ = Self.happens(event, to: &lifecycle)
    #expect(lifecycle.endError.code == .closed && lifecycle.writeError.code == .closed)
    #expect(lifecycle.report.map { "\($0.reason)" } == "local")
  }

  private static let ending = "refuseWrites report failFlushes refuseReads pump release"

  private static func text(_ phase: StreamLifecycle.Phase) -> String {
    if case .finishing(let condition) = phase { "finishing(\(condition))" } else { "\(phase)" }
  }

  private static func text(_ actions: Actions) -> String {
    let names: [(Actions, String)] = [
      (.announce, "announce"), (.startIdleWatch, "startIdleWatch"), (.stopIdleWatch, "stopIdleWatch"),
      (.disarmDeadline, "disarmDeadline"), (.armCloseDeadline, "armCloseDeadline"),
      (.shortenCloseDeadline, "shortenCloseDeadline"), (.armTailDeadline, "armTailDeadline"),
      (.resetWhenDropped, "resetWhenDropped"), (.closeWhenDropped, "closeWhenDropped"), (.reset, "reset"),
      (.giveUp, "giveUp"), (.openQueues, "openQueues"), (.tellOfPeerEnd, "tellOfPeerEnd"),
      (.refuseWrites, "refuseWrites"), (.report, "report"), (.failFlushes, "failFlushes"), (.endReads, "endReads"),
      (.refuseReads, "refuseReads"), (.pump, "pump"), (.recheckQueues, "recheckQueues"), (.linger, "linger"),
      (.release, "release"),
      (.notifyReleased, "notifyReleased"), (.expireNow, "expireNow"),
    ]
    return names.filter { actions.contains($0.0) }.map(\.1).joined(separator: " ")
  }

  // MARK: What the table does not show

  @Test(arguments: 0..<200)
  func `Phases only move on, there is one report, and the stream is released once`(seed: UInt64) {
    var random = SeededRandom(seed: seed)
    var lifecycle = StreamLifecycle()
    var rank = 0
    var reports = 0
    var releases = 0
    for _ in 0..<40 {
      let event = Event.allCases.randomElement(using: &random) ?? .up
      let actions = Self.happens(event, to: &lifecycle)
      let next = lifecycle.phase.rank
      #expect(next >= rank, "\(event) with seed \(seed)")
      rank = next
      if actions.contains(.report) { reports += 1 }
      if actions.contains(.release) { releases += 1 }
      #expect((lifecycle.report != nil) == (reports > 0))
      #expect(lifecycle.isReleased == (releases > 0))
      #expect(!lifecycle.isReleased || lifecycle.report != nil)
      #expect(!(actions.contains(.armTailDeadline) && actions.contains(.armCloseDeadline)))
    }
    #expect(reports <= 1 && releases <= 1, "seed \(seed)")
  }

  @Test(arguments: states.keys.sorted())
  func `The state that users see follows from the phase, the report and whether it was up`(name: String) {
    let lifecycle = Self.state(name)
    let expected: StreamState =
      switch name {
      case "connecting", "connecting, to finish": .connecting
      case "open", "open, tail timed", "open, tail released", "open, peer finished", "open, writes lost": .open
      case "open, broken", "released", "released in order": .closed
      default: .closing
      }
    #expect(lifecycle.state == expected)
  }

  @Test func `A handle, closing and queued writes keep the owner, a released tail does not`() {
    var lifecycle = Self.state("open")
    #expect(!lifecycle.keepsOwner(writesAreQueued: false))
    #expect(lifecycle.keepsOwner(writesAreQueued: true))
    lifecycle.handleCreated()
    #expect(lifecycle.keepsOwner(writesAreQueued: false) && !lifecycle.isQuiet)
    lifecycle.handleReleased()
    #expect(!lifecycle.keepsOwner(writesAreQueued: false) && lifecycle.isQuiet)
    #expect(!Self.state("open, tail released").keepsOwner(writesAreQueued: true))
    #expect(Self.state("open, tail timed").keepsOwner(writesAreQueued: true))
    for name in ["finishing reads", "flushing", "lingering"] {
      #expect(Self.state(name).keepsOwner(writesAreQueued: false))
    }
    #expect(!Self.state("released").keepsOwner(writesAreQueued: false))
  }

  @Test func `A tail with a handle, or of a stream that closes, has no deadline`() {
    var lifecycle = Self.state("open")
    lifecycle.handleCreated()
    #expect(lifecycle.tailRemains(isAlone: true).isEmpty)
    lifecycle.handleReleased()
    #expect(lifecycle.tailRemains(isAlone: true) == .armTailDeadline)
    #expect(lifecycle.tailRemains(isAlone: false) == .disarmDeadline)
  }

  @Test func `The report says what ended the stream first, and with how many bytes`() {
    let late = StreamTraffic(received: 9, sent: 9, unsent: 9)
    // If bytes were lost behind the peer's end, the report has the number of bytes that were unsent then.
    var lost = Self.state("open, writes lost")
    _ = lost.closeRequested(late)
    _ = lost.drained(reads: true, writes: true, flushes: true, late)
    _ = lost.transportGone(late)
    #expect("\(lost.report?.reason, default: "")" == "reset" && lost.report?.bytesUnsent == 1)
    var timedOut = Self.state("open")
    timedOut.operationTimedOut()
    _ = timedOut.closeRequested(late)
    _ = timedOut.drained(reads: true, writes: true, flushes: true, late)
    _ = timedOut.transportGone(late)
    #expect("\(timedOut.report?.reason, default: "")" == "timedOut" && timedOut.report?.bytesReceived == 9)
    var remote = Self.state("flushing at the end")
    _ = remote.drained(reads: true, writes: true, flushes: true, late)
    _ = remote.transportGone(late)
    #expect("\(remote.report?.reason, default: "")" == "remote")
    var broken = Self.state("open, broken")
    _ = broken.end(Self.other, .timedOut, late)
    #expect("\(broken.report?.reason, default: "")" == "reset" && broken.report?.bytesReceived == 3)
  }

  @Test func `Operations fail with what ended the stream, writes also with what broke behind the peer's end`() {
    #expect(Self.state("flushing").endError.code == .closed)
    #expect(Self.state("open, broken").endError.code == .connectionReset)
    #expect(Self.state("released").endError.code == .system)
    let lost = Self.state("open, writes lost")
    #expect(lost.writeError.code == .connectionReset && lost.endError.code == .closed)
    var ended = Self.state("open, broken")
    _ = ended.end(Self.other, nil, StreamTraffic())
    #expect(ended.endError.code == .system)
  }
}
