import Testing

@testable import ActorSocketsTLS

@Suite struct TLSReceiveStateTests {
  private static let all: [TLSReceiveState] = [
    .open(wasRead: false), .open(wasRead: true), .paused(wasRead: false), .paused(wasRead: true),
    .ended(.endOfStream), .ended(.failed),
  ]
  private static let running = Array(all.prefix(4))
  private static let ended = Array(all.suffix(2))

  @Test(arguments: [false, true])
  func `A pause ends with the next event or turn, and forgets no read`(wasRead: Bool) {
    var state = TLSReceiveState.open(wasRead: wasRead)
    state.pause()
    #expect(state == .paused(wasRead: wasRead))
    state.pause()
    #expect(state == .paused(wasRead: wasRead))
    state.resume()
    #expect(state == .open(wasRead: wasRead))
    state.resume()
    #expect(state == .open(wasRead: wasRead))
  }

  @Test(arguments: [false, true])
  func `A turn begins without a read, and says whether there was one before`(wasRead: Bool) {
    var open = TLSReceiveState.open(wasRead: wasRead)
    #expect(open.beginRescheduledRun() == wasRead)
    #expect(open == .open(wasRead: false))
    // What paused after the turn had come waits for the next one.
    var paused = TLSReceiveState.paused(wasRead: wasRead)
    #expect(paused.beginRescheduledRun() == wasRead)
    #expect(paused == .paused(wasRead: false))
  }

  @Test(arguments: running)
  func `A read is noted, and a pause goes on`(state: TLSReceiveState) {
    var state = state
    let isPaused = state == .paused(wasRead: false) || state == .paused(wasRead: true)
    #expect(state.noteRead(of: 1) == false)
    #expect(state == (isPaused ? .paused(wasRead: true) : .open(wasRead: true)))
  }

  @Test(arguments: ended)
  func `An end behind bytes is reported in a turn, an end that a read gets is not`(state: TLSReceiveState) {
    var changed = state
    #expect(changed.noteRead(of: 1) == true)
    #expect(changed.noteRead(of: 0) == false)
    #expect(changed == state)
  }

  @Test(arguments: running, [TLSReceiveState.Ending.endOfStream, .failed])
  func `An end is found in any state`(state: TLSReceiveState, ending: TLSReceiveState.Ending) {
    var state = state
    #expect(state.ending == nil)
    state.end(ending)
    #expect(state == .ended(ending))
    #expect(state.ending == ending)
  }

  @Test(arguments: ended)
  func `No event changes an end`(state: TLSReceiveState) {
    var changed = state
    changed.pause()
    changed.resume()
    #expect(changed.beginRescheduledRun() == false)
    #expect(changed == state)
  }

  @Test(arguments: running, [false, true])
  func `After an event, what is left waits a turn for readers`(state: TLSReceiveState, hasMore: Bool) {
    #expect(state.leftoverAfterEvent(hasMore: hasMore) == (hasMore ? .leaveToReaders : .none))
  }

  @Test(arguments: running, [false, true])
  func `After a turn, what is left waits for another turn only if somebody read`(
    state: TLSReceiveState, hasMore: Bool
  ) {
    let isRead = state == .open(wasRead: true) || state == .paused(wasRead: true)
    for wasRead in [false, true] {
      let expected: TLSReceiveState.Leftover = (wasRead || isRead) && hasMore ? .leaveToReaders : .receive
      #expect(state.leftoverAfterRescheduledRun(wasRead: wasRead, hasMore: hasMore) == expected)
    }
  }

  @Test(arguments: ended, [false, true])
  func `After the end was found, it is reported at once`(state: TLSReceiveState, wasRead: Bool) {
    #expect(state.leftoverAfterEvent(hasMore: false) == .receive)
    #expect(state.leftoverAfterRescheduledRun(wasRead: wasRead, hasMore: false) == .receive)
  }
}
