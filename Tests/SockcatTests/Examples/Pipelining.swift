import ActorSockets

/// Sends all questions before the first answer has arrived, and returns the answers in the order of the questions.
func answers(to questions: [String], on connection: some ByteStream) async throws -> [[UInt8]] {
  let pending = questions.map { connection.enqueueAsk(Array($0.utf8), for: .until(.lf)) }
  var answers: [[UInt8]] = []
  // A question that does not fit into the write budget is not sent, and its handle throws.
  for answer in pending { answers.append(try await answer.value) }
  return answers
}

/// Counts a visit in memcached: `incr`. Any number of tasks may call it at the same time, on one connection. A space or a line break in
/// the name of the page would be another question.
func countVisit(of page: String, on memcached: some ByteStream) async throws -> Int? {
  let reply = try await memcached.ask(
    utf8: "incr \(page) 1\r\n", for: .line(ending: .crlf), timeout: .within(.seconds(2)))
  return reply.flatMap { Int($0) }
}

/// Reads a value of Redis: `GET`. The length of the answer is in its first line, so a parser finds its end.
func value(of key: String, on redis: some ByteStream) async throws -> RedisValue? {
  let question = RedisValue.array([.bulk(Array("GET".utf8)), .bulk(Array(key.utf8))])
  return try await redis.ask(message: question, for: .parsing(RedisParser()), timeout: .within(.seconds(2)))
}
