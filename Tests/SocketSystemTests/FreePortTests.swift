import TestSupport
import Testing

/// The ports of test programs that run at the same time.
@Suite struct FreePortTests {
  @Test func `Of sixty processes in a row, no two begin within a hundred ports`() {
    for first: Int32 in [1, 21_990, 4_194_200] {
      let ports = (first..<first + 60).map { Int(firstPort(ofProcess: $0)) }
      #expect(ports.allSatisfy { (10_000..<32_000).contains($0) })
      for (index, port) in ports.enumerated() {
        #expect(!ports[..<index].contains { abs($0 - port) < 100 }, "process \(index) behind \(first)")
      }
    }
  }
}
