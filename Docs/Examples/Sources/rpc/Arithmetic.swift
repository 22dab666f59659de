/// The procedures of the example.
enum Arithmetic: Codable, Sendable {
  case add(Int, Int)
  case divide(Int, by: Int)

  struct NotDefined: Error, CustomStringConvertible {
    let description: String
  }

  /// Calculates the answer.
  static func answer(_ call: Arithmetic) throws -> Int {
    switch call {
    case .add(let left, let right):
      let (sum, overflow) = left.addingReportingOverflow(right)
      if overflow { throw NotDefined(description: "the sum is too large") }
      return sum
    case .divide(let number, let divisor):
      let (quotient, overflow) = number.dividedReportingOverflow(by: divisor)
      if overflow { throw NotDefined(description: "\(number) cannot be divided by \(divisor)") }
      return quotient
    }
  }
}
