import ActorSockets
import Synchronization

/// What a node finds again after a crash. The object is outside of the node's program, as a disk is.
final class ElectionDisk: Sendable {
  private let content = Mutex<(term: Int, vote: String?)>((0, nil))

  func load() -> (term: Int, vote: String?) { content.withLock { $0 } }
  func store(term: Int, vote: String?) { content.withLock { $0 = (term, vote) } }
}

/// A node that elects a leader together with others: at most one for each term, as in Raft (Ongaro and Ousterhout 2014).
actor ElectionNode {
  private enum Role { case follower, candidate, leader }

  private let name: String
  private let majority: Int
  private let disk: ElectionDisk
  private let storesVote: Bool
  private let log: @Sendable (String) -> Void
  private let leads: @Sendable (Int) throws -> Void
  private var role = Role.follower
  private var term: Int
  /// For whom this node has voted in its term.
  private var vote: String?
  private var supporters: Set<String> = []
  private var patienceEnds = ContinuousClock.now

  /// `leads` is called with each term that this node begins to lead.
  init(
    _ name: String, of count: Int, disk: ElectionDisk, storesVote: Bool, log: @escaping @Sendable (String) -> Void,
    leads: @escaping @Sendable (Int) throws -> Void
  ) {
    self.name = name
    majority = count / 2 + 1
    self.disk = disk
    self.storesVote = storesVote
    self.log = log
    self.leads = leads
    (term, vote) = disk.load()
    patienceEnds = .now + Self.patience
  }

  private static var patience: Duration { .milliseconds(Int.random(in: 100...200)) }

  /// Returns what to tell the other nodes. Call it again and again.
  func tick() -> String? {
    if role == .leader { return "lead \(term) \(name)" }
    if patienceEnds > .now { return role == .candidate ? "ask \(term) \(name)" : nil }
    enter(term + 1)
    role = .candidate
    supporters = [name]
    elect(name)
    log("wants to lead term \(term)")
    return "ask \(term) \(name)"
  }

  /// Takes a message of another node. Returns the answer, if there is one.
  func take(_ message: String) throws -> String? {
    let words = message.split(separator: " ").map(String.init)
    guard words.count == 3, let number = Int(words[1]), number >= term else { return nil }
    if number > term { enter(number) }
    switch (words[0], words[2]) {
    case ("ask", let candidate) where vote == nil || vote == candidate:
      if vote == nil { log("votes for \(candidate) in term \(term)") }
      elect(candidate)
      return "vote \(term) \(name)"
    case ("vote", let supporter) where role == .candidate:
      supporters.insert(supporter)
      if supporters.count < majority { return nil }
      role = .leader
      log("leads term \(term)")
      try leads(term)
      return "lead \(term) \(name)"
    case ("lead", _):
      role = .follower
      patienceEnds = .now + Self.patience
      return nil
    default: return nil
    }
  }

  private func enter(_ newTerm: Int) {
    role = .follower
    (term, vote) = (newTerm, nil)
    disk.store(term: term, vote: nil)
  }

  private func elect(_ candidate: String) {
    vote = candidate
    patienceEnds = .now + Self.patience
    if storesVote { disk.store(term: term, vote: vote) }
  }
}

/// Runs a node on port 7000. Each datagram is a message.
func run(_ node: ElectionNode, with others: [String]) async throws {
  try await UDPEndpoint.withEndpoint(boundTo: .port(7000)) { endpoint in
    try await withThrowingTaskGroup { group in
      group.addTask {
        for try await datagram in endpoint.datagrams {
          guard let answer = try await node.take(String(decoding: datagram.bytes, as: UTF8.self)) else { continue }
          try await endpoint.send(datagram.reply(Array(answer.utf8)))
        }
      }
      group.addTask {
        while true {
          try await Task.sleep(for: .milliseconds(30))
          guard let message = await node.tick() else { continue }
          for other in others { try await endpoint.send(Array(message.utf8), to: .host(other, port: 7000)) }
        }
      }
      // The first task that fails ends the other one.
      try await group.next()
    }
  }
}
