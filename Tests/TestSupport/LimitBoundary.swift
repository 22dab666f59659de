import Testing

/// A number of the page with the limits, and how it is tried. The number is that of the page, so a row that changes is tried with its new
/// number.
package struct LimitBoundary: Sendable, CustomTestStringConvertible {
  package typealias Acceptance = @Sendable (Int) async throws -> Bool

  private enum Trial: Sendable {
    case most(Acceptance)
    case least(Acceptance)
    case end(Acceptance)
    case time(@Sendable () async throws -> Duration)
  }

  /// The row's first column.
  package let what: String
  /// The position of the number among the values of the row.
  let position: Int
  private let trial: Trial

  package var testDescription: String { position == 0 ? what : "\(what), number \(position + 1)" }

  /// The number is accepted, and one more is not. A time is a number of nanoseconds.
  package static func most(_ what: String, position: Int = 0, _ accepts: @escaping Acceptance) -> LimitBoundary {
    LimitBoundary(what: what, position: position, trial: .most(accepts))
  }

  /// The number is accepted, and one less is not. A time is a number of nanoseconds.
  package static func least(_ what: String, position: Int = 0, _ accepts: @escaping Acceptance) -> LimitBoundary {
    LimitBoundary(what: what, position: position, trial: .least(accepts))
  }

  /// The number is not accepted, and one less is.
  package static func end(_ what: String, position: Int = 0, _ accepts: @escaping Acceptance) -> LimitBoundary {
    LimitBoundary(what: what, position: position, trial: .end(accepts))
  }

  /// Something happens after exactly this time. The time must be virtual.
  package static func time(
    _ what: String, position: Int = 0, _ measure: @escaping @Sendable () async throws -> Duration
  ) -> LimitBoundary {
    LimitBoundary(what: what, position: position, trial: .time(measure))
  }

  /// Tries the number of the page, and returns the fault; `nil` if the limit is exactly this number.
  package func fault(on page: LimitsPage) async throws -> String? {
    guard let row = page.rows.first(where: { $0.what == what }) else { return "the page has no such row" }
    guard row.values.indices.contains(position) else { return "the row has no value \(position + 1)" }
    let value = row.values[position]
    if case .time(let measure) = trial {
      guard case .time(let limit) = value else { return "\(value) is not a time" }
      let time = try await measure()
      return time == limit ? nil : "it happens after \(time), not after \(limit)"
    }
    guard let number = value.wholeNumber else { return "\(value) is not a number" }
    switch trial {
    case .most(let accepts): return try await Self.fault(accepts, accepted: number, refused: number + 1)
    case .least(let accepts): return try await Self.fault(accepts, accepted: number, refused: number - 1)
    case .end(let accepts): return try await Self.fault(accepts, accepted: number - 1, refused: number)
    case .time: return nil
    }
  }

  private static func fault(_ accepts: @escaping Acceptance, accepted: Int, refused: Int) async throws -> String? {
    if try await !accepts(accepted) { return "\(accepted) is refused" }
    if try await accepts(refused) { return "\(refused) is accepted" }
    return nil
  }
}

/// A row of the page with the limits, or one of its values, that no boundary tries.
package struct UntriedLimit: Sendable {
  /// The row's first column.
  package let what: String
  /// The position of the value in the row; `nil` for all values.
  let position: Int?
  package let reason: String

  package init(_ what: String, position: Int? = nil, _ reason: String) {
    self.what = what
    self.position = position
    self.reason = reason
  }
}

extension LimitsPage {
  /// Returns a sentence for each value that is neither tried nor listed, for each one that is both, and for each entry without a row.
  package func gaps(
    inSections isMeant: (String) -> Bool, _ boundaries: [LimitBoundary], _ untried: [UntriedLimit]
  ) -> [String] {
    let meant = rows.filter { isMeant($0.section) }
    var gaps: [String] = []
    for row in meant {
      for position in row.values.indices {
        let isTried = boundaries.contains { $0.what == row.what && $0.position == position }
        let isListed = untried.contains { $0.what == row.what && ($0.position ?? position) == position }
        if isTried != isListed { continue }
        let problem = isTried ? "is tried, and the list says that it is not" : "is not tried, and no reason is listed"
        gaps.append("Limits.md:\(row.line): value \(position + 1) of \"\(row.what)\" \(problem)")
      }
    }
    let entries = boundaries.map { ($0.what, $0.position) } + untried.map { ($0.what, $0.position ?? 0) }
    for (what, position) in entries
    where !meant.contains(where: { $0.what == what && $0.values.indices.contains(position) }) {
      gaps.append("Limits.md has no row \"\(what)\" with a value \(position + 1)")
    }
    return gaps
  }
}

extension Limit {
  fileprivate var wholeNumber: Int? {
    switch self {
    case .number(let number): number
    case .time(let time):
      Int(time.components.seconds) * 1_000_000_000 + Int(time.components.attoseconds / 1_000_000_000)
    case .text: nil
    }
  }
}
