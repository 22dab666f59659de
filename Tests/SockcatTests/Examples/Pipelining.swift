import ActorSockets

/// Sends all questions before the first answer has arrived, and returns the answers in the order of the questions.
func answers(to questions: [String], on connection: some ByteStream) async throws -> [[UInt8]] {
  let pending = questions.map { question in
    (sent: connection.enqueueWrite(Array(question.utf8)), answer: connection.enqueueRead(.until(.lf)))
  }
  var answers: [[UInt8]] = []
  for (sent, answer) in pending {
    // A question that did not fit into the write budget was not sent, and has no answer.
    try await sent.value
    answers.append(try await answer.value)
  }
  return answers
}

/// Lets many tasks ask questions on one connection. Each gets the answer to its own question.
actor Questioner<Connection: ByteStream> {
  private let connection: Connection

  init(_ connection: Connection) { self.connection = connection }

  func ask(_ question: String) async throws -> [UInt8] {
    // There is no `await` between these two calls, so no other question gets between the question and the place of its answer.
    let sent = connection.enqueueWrite(Array(question.utf8))
    let answer = connection.enqueueRead(.until(.lf))
    // In a task of its own: if the caller is cancelled, the answer is read nevertheless, and later answers keep their places.
    return try await Task { [connection] in
      do {
        try await sent.value
        return try await answer.value
      } catch {
        // The answers would no longer belong to the questions.
        await connection.abort()
        throw error
      }
    }.value
  }
}
