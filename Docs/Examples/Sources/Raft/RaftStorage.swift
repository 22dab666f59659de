import ActorSockets

/// Term, vote and log of a node on a disk.
///
/// The file `term` is replaced as a whole. The file `log` grows at its end: each record has the length of the entry, its checksum, and the
/// entry. A crash can leave a torn record at the end, or zeros. It was not acknowledged, so it is cut off.
///
/// A node may acknowledge everything that this has read or written, so it is on the disk first. That includes what the program has written
/// before it was killed, and did not synchronize.
struct RaftStorage: Sendable {
  /// The file `term` has something else in it. The node must not begin with nothing then, because it may have voted.
  struct Damaged: Error {}

  private static let longestLog = 1 << 28
  private static let headerLength = 16

  private let disk: any Disk
  private let log: any DiskFile
  /// Where each entry ends in the file.
  private var ends: [Int] = []

  /// Reads what is on the disk.
  static func open(on disk: any Disk) async throws -> (storage: RaftStorage, vote: TermAndVote, log: RaftLog) {
    let vote = try await loadVote(from: disk)
    var storage = RaftStorage(disk: disk, log: try await disk.open("log"))
    let log = try await storage.loadLog()
    try await disk.synchronizeDirectory("")
    return (storage, vote, log)
  }

  private init(disk: any Disk, log: any DiskFile) { (self.disk, self.log) = (disk, log) }

  /// Makes a change. When this returns, it is on the disk.
  mutating func save(_ change: RaftMachine.Change) async throws {
    if let vote = change.vote { try await disk.replace("term", with: Self.bytes(of: vote)) }
    guard let keptEntries = change.keptEntries else { return }
    if keptEntries < ends.count {
      ends.removeLast(ends.count - keptEntries)
      try await log.truncate(to: ends.last ?? 0)
      // Otherwise a crash could leave removed entries after new ones.
      try await log.synchronize()
    }
    let start = ends.last ?? 0
    var bytes: [UInt8] = []
    for entry in change.newEntries {
      bytes += Self.record(of: entry)
      ends.append(start + bytes.count)
    }
    try await log.write(bytes, at: start)
    try await log.synchronize()
  }

  // MARK: Files

  private mutating func loadLog() async throws -> RaftLog {
    let bytes = try await log.read(at: 0, count: Self.longestLog)
    var reader = ByteReader(bytes)
    var entries: [LogEntry] = []
    while let (entry, length) = try? Self.nextEntry(from: &reader) {
      entries.append(entry)
      ends.append((ends.last ?? 0) + length)
    }
    let end = ends.last ?? 0
    if end < bytes.count { try await log.truncate(to: end) }
    try await log.synchronize()
    return RaftLog(entries)
  }

  private static func nextEntry(from reader: inout ByteReader) throws -> (entry: LogEntry, length: Int) {
    let length = try reader.index()
    let sum = try reader.number()
    let bytes = try reader.bytes(length)
    var content = ByteReader(bytes)
    // An entry of no bytes is not one, so zeros are not a record.
    guard length > 0, sum == UInt64(checksum(bytes)) else { throw ByteReader.Malformed() }
    return (try content.entry(), headerLength + length)
  }

  private static func record(of entry: LogEntry) -> [UInt8] {
    var content = ByteWriter()
    content.write(entry)
    var record = ByteWriter()
    record.write(content.bytes.count)
    record.write(UInt64(checksum(content.bytes)))
    return record.bytes + content.bytes
  }

  private static func loadVote(from disk: any Disk) async throws -> TermAndVote {
    let bytes: [UInt8]
    do {
      bytes = try await disk.read("term", maximumLength: 24)
    } catch let error as SocketError where error.code == .pathNotFound {
      return TermAndVote()
    }
    var reader = ByteReader(bytes)
    guard let term = try? reader.number(), let vote = try? reader.index(), let sum = try? reader.number(),
      sum == UInt64(checksum(bytes.prefix(16)))
    else { throw Damaged() }
    return TermAndVote(term: term, vote: vote == 0 ? nil : vote)
  }

  private static func bytes(of vote: TermAndVote) -> [UInt8] {
    var writer = ByteWriter()
    writer.write(vote.term)
    writer.write(vote.vote ?? 0)
    writer.write(UInt64(checksum(writer.bytes)))
    return writer.bytes
  }
}
