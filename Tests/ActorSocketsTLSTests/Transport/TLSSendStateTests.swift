import SocketSystem
import Testing

@testable import ActorSocketsTLS

@Suite struct TLSSendStateTests {
  private static let reset = SystemError(call: "send", errno: 104)
  private static let brokenPipe = SystemError(call: "send", errno: 32)

  /// A state that each stage begins with.
  private static func state(in stage: TLSSendState.Stage) -> TLSSendState {
    var state = TLSSendState()
    switch stage {
    case .open: break
    case .awaitingInput: _ = state.wrote(.success(0), of: 1, isBlocked: false)
    case .failed(let error): state.carrierFailed(error, dropping: 0)
    }
    #expect(state.stage == stage)
    return state
  }

  @Test(arguments: [(7, 10), (10, 10), (0, 0)])
  func `What the engine took is sent, an empty write at once`(taken: Int, count: Int) {
    var state = TLSSendState()
    guard case .sent(taken) = state.wrote(.success(taken), of: count, isBlocked: false) else {
      Issue.record("nothing was sent")
      return
    }
    #expect(state.stage == .open)
  }

  @Test func `A write that the engine does not take waits for input of the peer`() {
    var state = TLSSendState()
    guard case .wouldBlock = state.wrote(.success(0), of: 1, isBlocked: false) else {
      Issue.record("it does not wait")
      return
    }
    #expect(state.stage == .awaitingInput)
    #expect(state.inputArrives() == true)
    #expect(state.stage == .open)
    #expect(state.inputArrives() == false)
  }

  @Test(arguments: [TLSSendState.Stage.open, .awaitingInput])
  func `A write that waits for room at the carrier waits for no input`(stage: TLSSendState.Stage) {
    var state = Self.state(in: stage)
    guard case .wouldBlock = state.wrote(.success(0), of: 1, isBlocked: true) else {
      Issue.record("it does not wait")
      return
    }
    #expect(state.stage == .open)
    #expect(state.inputArrives() == false)
  }

  @Test(arguments: [TLSSendState.Stage.open, .awaitingInput, .failed(brokenPipe)])
  func `A failure of the carrier replaces every stage, is told once and loses its bytes`(stage: TLSSendState.Stage) {
    var state = Self.state(in: stage)
    state.carrierFailed(Self.reset, dropping: 5)
    #expect(state.stage == .failed(Self.reset))
    #expect(state.lostBytes == 5)
    #expect(state.inputArrives() == false)
    #expect(state.takeFailure() == Self.reset)
    #expect(state.stage == .open)
    #expect(state.takeFailure() == nil)
    // A later failure adds to what was lost, and so does the end of the engine.
    state.carrierFailed(Self.brokenPipe, dropping: 2)
    state.dropOutput(3)
    #expect(state.lostBytes == 10)
    #expect(state.takeFailure() == Self.brokenPipe)
  }

  @Test(arguments: [Result<Int, TLSError>.success(3), .success(0), .failure(TLSError(.protocolError))])
  func `A write during which the carrier fails says so, whatever the engine says`(result: Result<Int, TLSError>) {
    var state = TLSSendState()
    state.carrierFailed(Self.reset, dropping: 1)
    guard case .carrierFailed(Self.reset) = state.wrote(result, of: 3, isBlocked: false) else {
      Issue.record("the failure was not told")
      return
    }
    #expect(state.stage == .open)
  }

  @Test(arguments: [TLSSendState.Stage.open, .awaitingInput])
  func `A failure of the engine and its absence change nothing`(stage: TLSSendState.Stage) {
    var state = Self.state(in: stage)
    guard case .engineFailed(let error) = state.wrote(.failure(TLSError(.protocolError)), of: 1, isBlocked: false),
      case .detached = state.wrote(nil, of: 1, isBlocked: true)
    else {
      Issue.record("the engine's failure was not told")
      return
    }
    #expect(error.code == .protocolError)
    #expect(state.stage == stage)
  }

  @Test(arguments: [TLSSendState.Stage.open, .failed(reset)])
  func `Only a write that awaits input is tried again when ciphertext comes`(stage: TLSSendState.Stage) {
    var state = Self.state(in: stage)
    #expect(state.inputArrives() == false)
    #expect(state.stage == stage)
  }
}
