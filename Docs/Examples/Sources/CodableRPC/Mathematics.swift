/// A service: its types, its methods, and what they do.
enum Mathematics {
  struct Primes: Codable, Hashable, Sendable {
    var count: Int
    var largest: Int?
  }

  /// Adds the methods to a server.
  static func add(to server: inout RPCServer) {
    server.on(.sum) { numbers in numbers.reduce(0, +) }
    server.on(.primes) { limit in try primes(below: limit) }
  }

  private static func primes(below limit: Int) throws -> Primes {
    guard 0...100_000_000 ~= limit else { throw RPCFailure(.invalidArgument, "the limit must be in 0...100000000") }
    var isComposite = [Bool](repeating: false, count: limit)
    var primes = Primes(count: 0, largest: nil)
    for number in stride(from: 2, to: limit, by: 1) where !isComposite[number] {
      // The caller may have no time left.
      if primes.count.isMultiple(of: 1000) { try Task.checkCancellation() }
      primes.count += 1
      primes.largest = number
      for multiple in stride(from: number * number, to: limit, by: number) { isComposite[multiple] = true }
    }
    return primes
  }
}

extension RPCMethod where Argument == [Double], Value == Double {
  /// The sum of numbers.
  static var sum: Self { Self("sum", isRepeatable: true) }
}

extension RPCMethod where Argument == Int, Value == Mathematics.Primes {
  /// The primes below a limit.
  static var primes: Self { Self("primes", isRepeatable: true) }
}
