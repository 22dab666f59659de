import Foundation
import Testing

/// The script that runs the tests, with a program in place of `swift` that prints what a run prints.
@Suite struct TestScriptTests {
  private static let overdue = "after 60 seconds still not: it ends, nor after being cancelled: the process ends here"

  private struct Result {
    var output: String
    var calls: [String]
    var status: Int32
  }

  /// Runs test.sh. Each run of the tests prints the next of these texts and ends with its status; the last one is repeated.
  private func run(_ runs: [(output: String, status: Int)]) throws -> Result {
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
    process.arguments = [SourceFile.absolutePath(of: "Tests/Tools/test.sh")]
    process.environment = ["PATH": "\(folder.path):/usr/bin:/bin"]
    process.standardInput = FileHandle.nullDevice
    let pipe = Pipe()
    process.standardOutput = pipe
    process.standardError = pipe
    try process.run()
    let output = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
    process.waitUntilExit()
    let calls = try String(contentsOf: folder.appendingPathComponent("calls"), encoding: .utf8)
    let lines = calls.split(separator: "\n").map(String.init)
    return Result(output: output, calls: lines, status: process.terminationStatus)
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
    let second = "◇ Suite DeltaTests started.\n✔ Suite DeltaTests passed after 0.1 seconds.\n"
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
    let result = try run([(first, 1), (second, 1), ("", 0)])
    #expect(result.calls.count == 3 && result.calls[1].contains("--skip [./](BetaTests|TestScriptTests)/"))
    #expect(result.calls[2].contains("|SuiteListTests)/"), "\(result.calls)")
    #expect(result.status == 70)
  }

  @Test func `Without a suite to leave out, the tests are not run again and again`() throws {
    let result = try run([("ActorSocketsTests/Missing.swift:7: \(Self.overdue)\n", 1)])
    #expect(result.calls.count == 1 && result.status == 70)
  }

  @Test(arguments: [0, 1])
  func `Other results are those of the one run`(status: Int) throws {
    let result = try run([("✘ Test failed\n", status)])
    #expect(result.calls.count == 1 && result.status == status)
  }
}
