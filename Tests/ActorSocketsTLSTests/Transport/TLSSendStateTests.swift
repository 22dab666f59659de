import Testing

@testable import ActorSocketsTLS

@Suite struct TLSSendStateTests {
  private static func state(in stage: TLSSendState.Stage) -> TLSSendState {
    var state = TLSSendState()
    switch stage {
    case .open: break
    case .awaitingInput: _ = state.wrote(0, of: 1, isBlocked: false)
    case .failed: state.carrierFailed(dropping: 0)
    }
    #expect(state.stage == stage)
    return state
  }

  @Test(arguments: [(7, 10), (10, 10), (0, 0)], [false, true])
  func `A write makes progress if the engine takes bytes, and an empty write always`(
    counts: (taken: Int, of: Int), isBlocked: Bool
  ) {
    var state = TLSSendState()
    #expect(state.wrote(counts.taken, of: counts.of, isBlocked: isBlocked) == true)
    #expect(state.stage == .open)
  }

  @Test func `A write that the engine does not take waits for input of the peer`() {
    var state = TLSSendState()
    #expect(state.wrote(0, of: 1, isBlocked: false) == false)
    #expect(state.stage == .awaitingInput)
    #expect(state.inputArrives() == true)
    #expect(state.stage == .open)
    #expect(state.inputArrives() == false)
  }

  @Test(arguments: [TLSSendState.Stage.open, .awaitingInput])
  func `A write that waits for room at the carrier waits for no input`(stage: TLSSendState.Stage) {
    var state = Self.state(in: stage)
    #expect(state.wrote(0, of: 1, isBlocked: true) == false)
    #expect(state.stage == .open)
    #expect(state.inputArrives() == false)
  }

  @Test(arguments: [TLSSendState.Stage.open, .awaitingInput, .failed])
  func `A failure of the carrier replaces every stage, is told once and loses its bytes`(stage: TLSSendState.Stage) {
    var state = Self.state(in: stage)
    state.carrierFailed(dropping: 5)
    #expect(state.stage == .failed)
    #expect(state.lostBytes == 5)
    #expect(state.inputArrives() == false)
    #expect(state.reportFailure() == true)
    #expect(state.stage == .open)
    #expect(state.reportFailure() == false)
    // A later failure adds to what was lost, and so does the end of the engine.
    state.carrierFailed(dropping: 2)
    state.dropOutput(3)
    #expect(state.lostBytes == 10)
    #expect(state.reportFailure() == true)
  }

  @Test(arguments: [TLSSendState.Stage.open, .awaitingInput])
  func `Without a failure there is nothing to tell`(stage: TLSSendState.Stage) {
    var state = Self.state(in: stage)
    #expect(state.reportFailure() == false)
    #expect(state.stage == stage)
  }

  @Test(arguments: [TLSSendState.Stage.open, .failed])
  func `Only a write that awaits input is tried again when ciphertext comes`(stage: TLSSendState.Stage) {
    var state = Self.state(in: stage)
    #expect(state.inputArrives() == false)
    #expect(state.stage == stage)
  }
}
