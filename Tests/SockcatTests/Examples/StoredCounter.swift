import ActorSockets

/// Counts calls, also those before a crash.
actor StoredCounter {
  private let disk: any Disk
  private var count: Int

  init(on disk: any Disk) async throws {
    self.disk = disk
    let isNew = try await !disk.list("").contains("count")
    let text = isNew ? [] : try await disk.read("count", maximumLength: 20)
    count = Int(String(decoding: text, as: UTF8.self)) ?? 0
  }

  /// The new count is on the disk when this returns. Make one call after the other.
  func increment() async throws -> Int {
    try await disk.replace("count", with: Array("\(count + 1)".utf8))
    count += 1
    return count
  }
}
