import Synchronization

/// How far the body of a request has been read. An origin may answer before it has the whole body. Then the rest is dropped, if it is not
/// much, because the next request is behind it.
final class Upload: Sendable {
  /// More is left than may be dropped.
  struct TooLong: Error {}

  private struct State {
    var hasBegun = false
    var isDone: Bool
    /// Whether the client sends the body only when it is told to go on.
    var isHeldBack: Bool
    /// How many bytes have been read, without what divides a body into chunks.
    var read = 0
    /// How many more bytes may be dropped; `nil` if the origin gets them.
    var room: Int?
  }

  private let body: BodyLength
  private let limit: Int
  private let state: Mutex<State>

  init(_ request: Request, _ limits: ReverseProxy.Limits) {
    (body, limit) = (request.body, limits.dropped)
    state = Mutex(State(isDone: body == .empty, isHeldBack: request.expectsContinue))
  }

  /// Whether the client has sent the whole body.
  var isDone: Bool { state.withLock { $0.isDone } }
  /// Whether the origin has got the whole body.
  var isWhole: Bool { state.withLock { $0.isDone && $0.room == nil } }

  /// Whether the rest of the body is, as far as is known, not more than may be dropped.
  var mayBeDropped: Bool {
    state.withLock { state in
      if state.isDone { return true }
      if let room = state.room, room < 0 { return false }
      // A client that has an answer in place of the permission to go on may send the body, or not.
      if state.isHeldBack, state.read == 0 { return false }
      if case .exactly(let length) = body { return length - state.read <= limit }
      return true
    }
  }

  /// Whether nothing of the body was read, or all of it. In between, only the task that reads the body knows where it is.
  var isUntouched: Bool { state.withLock { !$0.hasBegun || $0.isDone } }

  /// The client was told to go on.
  func isWanted() { state.withLock { $0.isHeldBack = false } }

  func begin(isDropped: Bool) {
    state.withLock { $0.hasBegun = true }
    if isDropped { drop() }
  }

  /// From now on, what is read is dropped.
  func drop() { state.withLock { if $0.room == nil { $0.room = limit } } }

  /// Notes that bytes have been read. Returns whether the origin gets them. Throws `TooLong`.
  func isForOrigin(_ count: Int) throws -> Bool {
    let room = state.withLock { state in
      state.read += count
      state.room = state.room.map { $0 - count }
      return state.room
    }
    if let room, room < 0 { throw TooLong() }
    return room == nil
  }

  func end() { state.withLock { $0.isDone = true } }
}
