import Foundation
import Glibc
import SocketSystem
import Testing

@Suite struct WakeEventTests {
  @Test func `A reactor that cannot be woken ends the program with a message, and does not sleep for ever`() async {
    let result = await #expect(processExitsWith: .failure, observing: [\.standardErrorContent]) {
      let event = try WakeEvent()
      close(event.number)
      event.signal()
    }
    let said = result.map { String(decoding: $0.standardErrorContent, as: UTF8.self) } ?? ""
    #expect(said.contains("a sleeping reactor cannot be woken"), "\(said)")
  }
}
