import ActorSockets
import Foundation
import Glibc
import TestSupport
import Testing

@testable import ActorSocketsTLS

/// Lifetimes that no program needs, and a shortage when a context is made. Each test is a process of its own: a trap ends it.
@Suite struct ExtremeLifetimeTests {
  private static let durations: [Duration] = [
    Duration(attoseconds: .min), .seconds(Int64.min), .zero, Duration(attoseconds: 1), .nanoseconds(1),
    .nanoseconds(Int64.max) - .nanoseconds(1), .nanoseconds(Int64.max), .nanoseconds(Int64.max) + .nanoseconds(1),
    .seconds(9_223_372_036) + .nanoseconds(999_999_999), .seconds(Int64.max), Duration(attoseconds: .max),
  ]

  @Test func `Every lifetime and timeout of a configuration may have any value`() async {
    await #expect(processExitsWith: .success) {
      for duration in Self.durations {
        let changes: [(inout TLSConfiguration) -> Void] = [
          { $0.sessionLifetime = duration }, { $0.ticketKeyLifetime = duration }, { $0.handshakeTimeout = duration },
        ]
        for change in changes {
          // A duration that is not above zero is refused.
          guard duration > .zero else {
            #expect(throws: TLSError.self) { try Made.client { change(&$0) } }
            continue
          }
          let (client, server) = (try Made.client { change(&$0) }, try Made.server { change(&$0) })
          // The second handshake opens the ticket of the first, if it is still valid.
          for _ in 0..<2 {
            let errors = try TwoEnds(client: client, server: server).handshake { _ in .success(()) }
            #expect(errors.client == nil && errors.server == nil)
          }
        }
      }
    }
  }

  @Test func `The wait for the end of a pipe may have any length`() async {
    await #expect(processExitsWith: .success) {
      for duration in Self.durations {
        let pipe = Pipe()
        try pipe.fileHandleForWriting.write(contentsOf: [1, 2, 3])
        try pipe.fileHandleForWriting.close()
        let path = "/dev/fd/\(pipe.fileHandleForReading.fileDescriptor)"
        #expect(try Source.file(path).read(pipeTimeout: duration) == [1, 2, 3])
      }
    }
  }

  @Test func `A certificate that signs itself may have any validity`() async {
    await #expect(processExitsWith: .success) {
      for duration in Self.durations {
        let certificate = try TLSIdentity.selfSigned(for: ["localhost"], validity: duration).certificate
        #expect((.seconds(0) ... .seconds(253_402_300_799)).contains(certificate.notAfter))
      }
    }
  }

  @Test func `A context that is made without free descriptors says so, and not that certificates are missing`() async {
    await #expect(processExitsWith: .success) {
      var limit = rlimit()
      // SAFETY: the calls read or write one struct rlimit.
      unsafe getrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
      let before = limit.rlim_cur
      limit.rlim_cur = 0
      unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
      var error: TLSError?
      do { _ = try TLSContext() } catch let caught { error = caught as? TLSError }
      limit.rlim_cur = before
      unsafe setrlimit(__rlimit_resource_t(RLIMIT_NOFILE.rawValue), &limit)
      let text = "\(try #require(error))"
      #expect(text.contains("Too many open files") && !text.contains("install"), "\(text)")
      #expect(error?.code == .badFile)
    }
  }
}
