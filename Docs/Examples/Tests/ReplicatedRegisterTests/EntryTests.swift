import ActorSockets
import ExampleSupport
import Testing

@testable import ReplicatedRegister

/// Entries in the form of the protocol and of the file.
@Suite struct EntryTests {
  @Test(arguments: ["", " ", "hello world", "\u{301}accent", "e\u{301}", "\u{338}", "1 2 3 4"])
  func `A value is the same after it was stored, also if it begins with an accent`(value: String) async throws {
    let entry = Entry(number: 7, client: 12, write: 3, value: value)
    let parsed = try #require(Entry("\(entry)"))
    #expect(Array(parsed.value.utf8) == Array(value.utf8) && parsed == entry)
    // The file of a replica can be read again, too.
    let folder = try Folder()
    let file = EntryFile(disk: try LinuxDisk(directory: folder.path))
    try await file.save(entry)
    #expect(try await file.load() == entry)
  }
}
