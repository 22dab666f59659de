import Foundation
import Testing

/// The script that runs the tests, with a program in place of `swift` that prints what a run prints.
@Suite struct TestScriptTests {
  private static let overdue = "after 60 seconds still not: it ends, nor after being cancelled: the process ends here"

  private static let end = "✔ Test run with 1 test in 1 suite passed after 0.1 seconds.\n"

  private struct Result {
    var output: String
    var calls: [String]
    /// The files and modules that are left out of the build.
    var unbuilt: [String]
    var status: Int32
  }

  /// Runs test.sh. Each run of the tests prints the next of these texts and ends with its status; the last one is repeated.
  private func run(_ runs: [(output: String, status: Int)], _ arguments: [String] = []) throws -> Result {
    let folder = FileManager.default.temporaryDirectory.appendingPathComponent("test-script-\(UUID().uuidString)")
    try FileManager.default.createDirectory(at: folder, withIntermediateDirectories: true)
    defer { try? FileManager.default.removeItem(at: folder) }
    func write(_ text: String, to name: String) throws {
      try text.write(to: folder.appendingPathComponent(name), atomically: true, encoding: .utf8)
    }
    for (number, run) in runs.enumerated() {
      try write(run.output, to: "output \(number)")
      try write("\(run.status)", to: "status \(number)")
    }
    let script = """
      #!/bin/bash
      cd "$(dirname "$0")"
      echo "$*" >>calls
      echo "${ACTORSOCKETS_UNBUILT-}" >unbuilt
      number=$(($(wc --lines <calls) - 1))
      [ "$number" -lt \(runs.count) ] || number=\(runs.count - 1)
      cat "output $number"
      exit "$(cat "status $number")"
      """
    try write(script, to: "swift")
    let swift = folder.appendingPathComponent("swift").path
    try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: swift)
    let process = Process()
    process.executableURL = URL(fileURLWithPath: "/bin/bash")
    process.arguments =
      [SourceFile.absolutePath(of: "Tests/Tools/test.sh")] + arguments + ["--scratch-path", folder.path]
    process.environment = ["PATH": "\(folder.path):/usr/bin:/bin"]
    process.standardInput = FileHandle.nullDevice
    let pipe = Pipe()
    process.standardOutput = pipe
    process.standardError = pipe
    try process.run()
    let output = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    func words(of name: String, separator: Character) -> [String] {
      let text = (try? String(contentsOf: folder.appendingPathComponent(name), encoding: .utf8)) ?? ""
      return text.split { $0 == separator || $0.isNewline }.map(String.init)
    }
    return Result(
      output: output, calls: words(of: "calls", separator: "\n"), unbuilt: words(of: "unbuilt", separator: " "),
      status: process.terminationStatus)
  }

  @Test func `A deadline that passes is reported, and the suites that have not run yet are run`() throws {
    let first = """
      ◇ Suite AlphaTests started.
      ✔ Suite AlphaTests passed after 0.1 seconds.
      ◇ Suite Peers started.
      ◇ Suite GammaTests started.
      ✘ Suite GammaTests failed after 0.1 seconds with 1 issue.
      ◇ Suite BetaTests started.
      ActorSocketsTests/Missing.swift:7: \(Self.overdue)
      """
    let second = "◇ Suite DeltaTests started.\n✔ Suite DeltaTests passed after 0.1 seconds.\n" + Self.end
    let result = try run([(first, 1), (second, 0)])
    #expect(result.calls.count == 2, "\(result.calls)")
    #expect(!result.calls[0].contains("--skip"))
    #expect(result.calls[1].contains("--skip [./](AlphaTests|BetaTests|GammaTests)/"))
    #expect(result.status == 70 && result.output.contains("DeltaTests passed"))
    // The list at the end has the sentence again.
    #expect(result.output.components(separatedBy: Self.overdue).count == 3, "\(result.output)")
  }

  @Test func `The suites in the file of the call that did not return are not run again`() throws {
    let first = """
      ◇ Suite AlphaTests started.
      ◇ Suite BetaTests started.
      SourceRulesTests/TestScriptTests.swift:7: \(Self.overdue)
      """
    let second = "SourceRulesTests/SuiteListTests.swift:7: \(Self.overdue)\n"
    let result = try run([(first, 1), (second, 1), (Self.end, 0)])
    #expect(result.calls.count == 3 && result.calls[1].contains("--skip [./](BetaTests|TestScriptTests)/"))
    #expect(result.calls[2].contains("|SuiteListTests)/"), "\(result.calls)")
    #expect(result.status == 70)
  }

  @Test func `Without a suite to leave out, the tests are not run again and again`() throws {
    let result = try run([("ActorSocketsTests/Missing.swift:7: \(Self.overdue)\n", 1)])
    #expect(result.calls.count == 1 && result.status == 1)
  }

  @Test(arguments: [
    "Test/File.swift:7: Fatal error: the index is too large", "WARNING: ThreadSanitizer: data race (pid=1)",
    "💣 Program crashed: Bad pointer dereference at 0x0",
  ])
  func `A process that ends early is shown, and the suites that have not run yet are run`(words: String) throws {
    let first = """
      ◇ Suite AlphaTests started.
      ✔ Test one() passed after 0.1 seconds.
      ✔ Suite AlphaTests passed after 0.1 seconds.
      ◇ Suite BetaTests started.
      \(words)
      0 in function() at File.swift:7
      """
    let result = try run([(first, 4), ("✔ Test two() passed after 0.1 seconds.\n" + Self.end, 0)])
    #expect(result.calls.count == 2)
    #expect(result.calls[1].contains("--skip [./](AlphaTests|BetaTests)/"), "\(result.calls)")
    #expect(result.output.contains("\(words)\n0 in function() at File.swift:7\n"), "\(result.output)")
    #expect(result.status == 70 && result.output.hasSuffix("test.sh: 2 passed, 1 failed, 0 skipped\n"))
  }

  @Test(arguments: [0, 1])
  func `Other results are those of the one run`(status: Int) throws {
    let result = try run([("✘ Test failed\n" + Self.end, status)])
    #expect(result.calls.count == 1 && result.status == status)
  }

  @Test func `A suite has one line, a failure all of its lines, and the rest is in the file`() throws {
    let printed = """
      [1/2] Compiling A.swift
      Build complete! (1.00s)
      ◇ Suite AlphaTests started.
      ◇ Test one() started.
      ✔ Test one() passed after 0.1 seconds.
      ◇ Test two() started.
      ✘ Test two() recorded an issue at A.swift:1:1: Expectation failed: a == b
      ↳ a → 1
      ✘ Test two() failed after 0.1 seconds with 1 issue.
      ◇ Test three() started.
      ➜ Test three() skipped: "no tool"
      something that a test prints
      ✘ Suite AlphaTests failed after 0.3 seconds with 1 issue.
      ✘ Test run with 2 tests in 1 suite failed after 0.3 seconds with 1 issue.

      """
    let result = try run([(printed, 1)])
    let shown = """
      Build complete! (1.00s)
      ✘ Test two() recorded an issue at A.swift:1:1: Expectation failed: a == b
      ↳ a → 1
      ✘ Test two() failed after 0.1 seconds with 1 issue.
      ✘ Suite AlphaTests failed after 0.3 seconds with 1 issue.
      test.sh: 0 s
      """
    #expect(result.output.hasPrefix(shown), "\(result.output)")
    #expect(result.output.contains("skipped, and why:\n      1 no tool\n"), "\(result.output)")
    #expect(result.output.hasSuffix("test.sh: 1 passed, 1 failed, 1 skipped\n"), "\(result.output)")
  }

  @Test func `A line that is cut at a NUL hides no result`() throws {
    let printed = """
      ◇ Test case passing 1 argument name → "a✔ Test one() with 1 test case passed after 0.1 seconds.
      ◇ Test case passing 1 argument name → "◇ Test case passing 1 argument name → "b✘ Test two() failed after 0.1 seconds with 1 issue.
      ◇ Test case passing 1 argument name → "✔ Suite AlphaTests passed after 0.1 seconds.

      """
    let result = try run([(printed + Self.end, 1)])
    let shown = """
      ✘ Test two() failed after 0.1 seconds with 1 issue.
      ✔ Suite AlphaTests passed after 0.1 seconds.
      """
    #expect(result.output.hasPrefix(shown), "\(result.output)")
    #expect(result.output.hasSuffix("test.sh: 1 passed, 1 failed, 0 skipped\n"), "\(result.output)")
  }

  @Test func `The warnings of a build are shown, and are not among what failed`() throws {
    let printed = "ld.gold: warning: a hash table\n✘ Test one() failed after 0.1 seconds with 1 issue.\n"
    let result = try run([(printed + Self.end, 1)])
    #expect(result.output.components(separatedBy: "warning: ").count == 2, "\(result.output)")
    #expect(result.output.components(separatedBy: "one() failed").count == 3, "\(result.output)")
  }

  @Test func `A test that was cancelled is a failure`() throws {
    let result = try run([("➜ Test one() was cancelled after 0.1 seconds.\n" + Self.end, 0)])
    #expect(result.status == 1 && result.output.hasSuffix("test.sh: 0 passed, 1 failed, 0 skipped\n"))
  }

  @Test(arguments: [0, 1])
  func `A whole run is a build and three processes, and each can fail`(status: Int) throws {
    let result = try run([("", 0), ("✔ Test one() passed after 0.1 seconds.\n" + Self.end, status)], ["--split"])
    #expect(result.calls.count == 4 && result.status == status)
    #expect(result.calls[0].hasPrefix("build ") && result.calls.dropFirst().allSatisfy { $0.hasPrefix("test ") })
    #expect(result.calls.count { $0.contains("--ignore-lock") } == 2)
    #expect(result.calls.count { $0.contains("--skip-build") } == 3)
    #expect(result.output.hasSuffix("test.sh: 3 passed, 0 failed, 0 skipped\n"), "\(result.output)")
  }

  @Test func `Without a build there is no run`() throws {
    let result = try run([("error: no such module\n", 1)], ["--split"])
    #expect(result.calls.count == 1 && result.status == 1 && result.output.hasSuffix("error: no such module\n"))
  }

  @Test func `A lean build has the files of the suites that run, and the helpers`() throws {
    let own = "Tests/SourceRulesTests/TestScriptTests.swift"
    let one = try run([(Self.end, 0)], ["--lean", "--in", own]).unbuilt
    #expect(one.contains("Tests/SocketSystemTests") && one.contains("Tests/SourceRulesTests/SuiteListTests.swift"))
    #expect(!one.contains(own) && !one.contains { $0.hasSuffix("/SourceFile.swift") })
    #expect(try run([(Self.end, 0)], ["--lean", "--not-in", own]).unbuilt == [own])
    let threads = try run([(Self.end, 0)], ["--lean", "--threads"]).unbuilt
    #expect(threads.contains("Tests/SocketSystemTests/IPv4AddressTests.swift"))
    #expect(!threads.contains("Tests/EpollReactorTests/StarvationTests.swift"))
    #expect(try run([(Self.end, 0)], ["--in", own]).unbuilt.isEmpty)
  }
}
