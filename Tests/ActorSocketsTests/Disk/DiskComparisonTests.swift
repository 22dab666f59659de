import ActorSockets
import ActorSocketsTesting
import Foundation
import TestSupport
import Testing

/// Random histories of calls on Linux and on a simulated disk, which return the same.
@Suite struct DiskComparisonTests {
  private static let paths = ["a", "b", "d", "e", "d/a", "d/e", "e/a", "e/d", "d/e/a", "a/b", ""]

  /// The outcome of a call, as text.
  private func outcome(of call: (any Disk) async throws -> String, on disk: any Disk) async -> String {
    do { return try await call(disk) } catch let error as SocketError { return "\(error.code)" } catch {
      return "\(error)"
    }
  }

  /// A random call, with its name.
  private func call(_ random: inout SeededRandom) -> (name: String, run: @Sendable (any Disk) async throws -> String) {
    let (path, other) = (
      Self.paths.randomElement(using: &random) ?? "", Self.paths.randomElement(using: &random) ?? ""
    )
    let offset = Int.random(in: 0...9_000, using: &random)
    let count = Int.random(in: 0...6_000, using: &random)
    let byte = UInt8.random(in: 1...255, using: &random)
    @Sendable func open(_ disk: any Disk) async throws -> any DiskFile { try await disk.open(path, creation: .never) }
    switch Int.random(in: 0..<12, using: &random) {
    case 0, 1:
      let creation = [FileCreation.ifMissing, .exclusive].randomElement(using: &random) ?? .never
      return ("open \(path) \(creation)", { "\(try await $0.open(path, creation: creation).count)" })
    case 2, 3: return ("mkdir \(path)", { "\(try await $0.createDirectory(path))" })
    case 4, 5: return ("rename \(path) \(other)", { "\(try await $0.rename(path, to: other))" })
    case 6: return ("remove \(path)", { "\(try await $0.remove(path))" })
    case 7: return ("list \(path)", { "\(try await $0.list(path))" })
    case 8:
      return ("write \(path)", { "\(try await open($0).write([UInt8](repeating: byte, count: count), at: offset))" })
    case 9: return ("append \(path)", { "\(try await open($0).append([UInt8](repeating: byte, count: count)))" })
    case 10: return ("truncate \(path)", { "\(try await open($0).truncate(to: offset))" })
    default: return ("read \(path)", { "\(try await open($0).read(at: offset, count: count))" })
    }
  }

  @Test(arguments: 0..<10 as Range<UInt64>) func `A simulated disk answers as Linux does`(seed: UInt64) async throws {
    try await simulated { simulation in
      for round in 0..<seeds(10, atMost: 200) {
        let folder = try Folder()
        let linux = try LinuxDisk(directory: folder.url.path)
        let disk = simulation.host("host\(round)").disk
        var random = SeededRandom(seed: seed &* 1_000_003 &+ round)
        var names: [String] = []
        for _ in 0..<80 {
          let (name, run) = call(&random)
          names.append(name)
          let (one, other) = (await outcome(of: run, on: linux), await outcome(of: run, on: disk))
          #expect(one == other, "seed \(seed), round \(round): \(names.suffix(12))")
          if one != other { return }
        }
        withExtendedLifetime(folder) {}
      }
    }
  }
}
