import ActorSockets

/// Describes an error for a log: the code for programs, the sentence for people, and the errors that it summarizes.
func logLines(for error: any Error) -> [String] {
  guard let error = error as? SocketError else { return ["\(error)"] }
  return ["\(error.code): \(error)"] + error.causes.map { "  because of: \($0)" }
}
