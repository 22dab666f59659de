import Foundation
package import Testing

/// Thrown by a test that cannot run because the machine lacks a tool or a privilege.
package struct MissingRequirement: Error, CustomStringConvertible {
  package let description: String
}

/// Whether a skipped test is an error: `CI=true`, as build servers set it.
private let isStrict = ["true", "1"].contains(ProcessInfo.processInfo.environment["CI"] ?? "")

extension Trait where Self == ConditionTrait {
  /// Runs the test only if nothing prevents it. Every conditional test uses this trait, and a source rule forbids others.
  ///
  /// If something does, the test fails with `CI=true`, and is otherwise skipped; test.sh prints the reasons at the end of the
  /// run.
  package static func runs(unless obstacle: @autoclosure @escaping @Sendable () -> String?) -> Self {
    guard let reason = obstacle() else { return .enabled { true } }
    return .enabled(Comment(rawValue: reason)) {
      if isStrict { throw MissingRequirement(description: "with CI=true no test may be skipped: \(reason)") }
      return false
    }
  }

  package static func needs(_ tool: Tool) -> Self { .runs(unless: tool.obstacle) }

  /// Runs the test unless its suite runs in simulations, where it cannot. The run in real time has it.
  package static func runsInRealTime(_ isSimulated: Bool) -> Self { .enabled(if: !isSimulated) }

  package static var needsNamespaces: Self { .runs(unless: Namespace.obstacle) }
}
