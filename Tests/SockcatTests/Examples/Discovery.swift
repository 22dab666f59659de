import ActorSockets

/// Answers the questions that are sent to a group with a name, until the endpoint is closed or the task is cancelled.
func answerQuestions(to group: IPAddress, port: UInt16, on interface: InterfaceSelector, as name: String) async throws {
  var configuration = UDPEndpoint.Configuration()
  // Other programs on this machine may be members of the group, too.
  configuration.reuseAddress = true
  let endpoint = try UDPEndpoint.bind(to: .port(port), configuration: configuration)
  try await endpoint.join(group, on: interface)
  for try await question in endpoint.datagrams {
    try await endpoint.send(question.reply(Array(name.utf8)))
  }
}

/// Asks all members of a group, and returns the answers that arrive within a second.
func askGroup(_ group: IPAddress, port: UInt16, on interface: InterfaceSelector) async throws -> [Datagram] {
  try await UDPEndpoint.withEndpoint { endpoint in
    try await endpoint.setMulticastInterface(interface)
    try await endpoint.send(Array("who is there?".utf8), to: group.socketAddress(port: port))
    let end = ContinuousClock.now + .seconds(1)
    var answers: [Datagram] = []
    // Anyone can answer, and more than once. Without a limit, the answers could take any amount of memory.
    for try await answer in endpoint.datagrams.ending(at: end).prefix(1_000) { answers.append(answer) }
    return answers
  }
}
