import ActorSockets
import ActorSocketsTesting
import Testing

@testable import Raft

/// The parts of a node, each without the others.
@Suite struct RaftPartsTests {
  private let put = LogEntry(
    term: 3, command: .put(key: [1, 2], value: [], Session(client: .max, number: 7)))

  @Test func `Packets are the same after encoding and decoding, and others are refused`() throws {
    let stamp = Stamp(round: 9, sent: .milliseconds(1_234))
    let append = RaftMessage.Append(
      previous: 4, previousTerm: 2, entries: [put, LogEntry(term: 3, command: .nothing)], commit: 4, stamp: stamp)
    let messages: [RaftMessage] = [
      .askForVote(lastIndex: 5, lastTerm: 2), .vote(isGranted: true), .vote(isGranted: false), .append(append),
      .matches(index: 6, stamp), .differs(previous: 5, last: 2, stamp),
    ]
    let packets: [Packet] =
      messages.map { .message(from: 2, term: 8, $0) } + [
        .request(.put(key: [1], value: [2, 3], Session(client: 4, number: 5))), .request(.get(key: [])),
        .answer(.value(nil)), .answer(.value([])), .answer(.value([1])), .answer(.notLeader(leader: nil)),
        .answer(.notLeader(leader: 3)),
      ]
    for packet in packets {
      #expect(try Packet(packet.bytes) == packet)
      #expect(throws: ByteReader.Malformed.self) { try Packet(packet.bytes + [0]) }
      #expect(throws: ByteReader.Malformed.self) { try Packet(packet.bytes.dropLast()) }
    }
    #expect(checksum("123456789".utf8) == 0xCBF4_3926)
  }

  @Test func `A torn end of the log is cut off, and a damaged vote stops the node`() async throws {
    let simulation = Simulation(seed: 1)
    try await simulation.run { [put] in
      let disk = simulation.host("node").disk
      var (storage, vote, log) = try await RaftStorage.open(on: disk)
      #expect(vote == TermAndVote() && log == RaftLog())
      let second = LogEntry(term: 4, command: .nothing)
      try await storage.save(
        .init(vote: TermAndVote(term: 4, vote: 2), keptEntries: 0, newEntries: [put, put, put]))
      try await storage.save(.init(keptEntries: 1, newEntries: [second]))
      (storage, vote, log) = try await RaftStorage.open(on: disk)
      #expect(vote == TermAndVote(term: 4, vote: 2) && log == RaftLog([put, second]))

      let file = try await disk.open("log")
      let end = try await file.count
      try await file.append(Array(repeating: 0, count: 40))
      (storage, vote, log) = try await RaftStorage.open(on: disk)
      let count = try await file.count
      #expect(log == RaftLog([put, second]) && count == end)
      try disk.flipBit(of: "log", at: end - 1)
      (storage, vote, log) = try await RaftStorage.open(on: disk)
      #expect(log == RaftLog([put]))
      try await storage.save(.init(keptEntries: 1, newEntries: [second]))
      (storage, vote, log) = try await RaftStorage.open(on: disk)
      #expect(log == RaftLog([put, second]))

      try disk.flipBit(of: "term", at: 7)
      await #expect(throws: RaftStorage.Damaged.self) { try await RaftStorage.open(on: disk) }
    }
  }

  @Test func `An entry of an earlier term is committed with one of the leader's own`() {
    let old = LogEntry(term: 1, command: .nothing)
    var leader = RaftMachine(
      RaftConfiguration(id: 1, nodes: [1, 2, 3]), vote: TermAndVote(term: 1), log: RaftLog([old]), seed: 1, at: .zero)
    let now = leader.deadline
    #expect(leader.advance(to: now).first == .save(.init(vote: TermAndVote(term: 2, vote: 1))))
    _ = leader.receive(.vote(isGranted: true), from: 2, term: 2, at: now)
    let stamp = Stamp(round: 1, sent: now)
    _ = leader.receive(.matches(index: 1, stamp), from: 2, term: 2, at: now)
    #expect(leader.commit == 0)
    let effects = leader.receive(.matches(index: 2, stamp), from: 2, term: 2, at: now)
    #expect(leader.commit == 2)
    #expect(effects.first == .apply(index: 1, old, term: 2, request: nil))
  }

  @Test func `The check knows what one variable can do`() {
    func operation(_ client: Int, _ kind: Operation.Kind, _ value: String?, _ start: Int, _ end: Int) -> Operation {
      Operation(client: client, kind: kind, key: "x", value: value, start: .seconds(start), end: .seconds(end))
    }
    let put = operation(1, .put, "new", 1, 9)
    #expect(LinearizabilityCheck.passes([]))
    #expect(LinearizabilityCheck.passes([put, operation(2, .get, nil, 2, 3), operation(2, .get, "new", 4, 5)]))
    #expect(LinearizabilityCheck.passes([put, operation(2, .get, "new", 2, 4), operation(3, .get, nil, 3, 5)]))
    #expect(!LinearizabilityCheck.passes([put, operation(2, .get, "new", 2, 3), operation(3, .get, nil, 4, 5)]))
    #expect(!LinearizabilityCheck.passes([put, operation(2, .get, nil, 10, 11)]))
    #expect(!LinearizabilityCheck.passes([put, operation(2, .get, "other", 2, 3)]))
  }
}
