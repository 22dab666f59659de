import ActorSocketsTLS
import TestSupport
import Testing

@testable import ActorSockets

@Suite struct NetworkErrorTests {
  @Test func `A code catches the errors that have it, and no others`() {
    func caught(_ error: any Error) -> String {
      do {
        throw error
      } catch SocketError.Code.timedOut {
        return "timed out"
      } catch TLSError.Code.truncated {
        return "truncated"
      } catch {
        return "other"
      }
    }
    #expect(caught(SocketError(.timedOut, operation: "read")) == "timed out")
    #expect(caught(SocketError(.closed, operation: "read")) == "other")
    #expect(caught(TLSError(.truncated)) == "truncated")
    #expect(caught(TLSError(.expired)) == "other")
    #expect(caught(CancellationError()) == "other")
    // The error of a stream of a pipe or a relay.
    #expect(caught(PipeError(.first, .reading, SocketError(.timedOut, operation: "read"))) == "timed out")
    #expect(caught(PipeError(.second, .writing, TLSError(.truncated))) == "truncated")
    #expect(caught(PipeError(.second, .writing, TLSError(.expired))) == "other")
  }

  @Test func `The short form of a code catches the same errors`() {
    func caught(_ error: any Error) -> String {
      do {
        throw error
      } catch .timedOut {
        return "timed out"
      } catch .truncated {
        return "truncated"
      } catch {
        return "other"
      }
    }
    #expect(caught(SocketError(.timedOut, operation: "read")) == "timed out")
    #expect(caught(TLSError(.truncated)) == "truncated")
    #expect(caught(PipeError(.first, .reading, SocketError(.timedOut, operation: "read"))) == "timed out")
    #expect(caught(SocketError(.closed, operation: "read")) == "other")
    #expect(caught(CancellationError()) == "other")
    func typed(_ code: SocketError.Code) -> Bool {
      do throws(SocketError) {
        throw SocketError(code, operation: "read")
      } catch .timedOut {
        return true
      } catch {
        return error.code == .timedOut
      }
    }
    #expect(typed(.timedOut) && !typed(.closed))
  }

  @Test(arguments: [
    (SocketError.Code.connectionReset, true), (.endOfStream, true), (.timedOut, true), (.connectionRefused, true),
    (.unreachable, true), (.hostNotFound, true), (.resolverFailed, true), (.tooManyOpenFiles, true),
    (.peerTooSlow, true),
    (.proxyFailed, true), (.system, true), (.closed, false), (.reactorShutDown, false), (.invalidArgument, false),
    (.permissionDenied, false), (.upgraded, false), (.invalidMessage, false), (.limitExceeded, false),
  ])
  func `An error says whether trying again makes sense`(code: SocketError.Code, isRetryable: Bool) {
    let error: any NetworkError = SocketError(code, operation: "read")
    #expect(error.isRetryable == isRetryable)
    #expect(error.isTimeout == (code == .timedOut))
  }

  @Test func `A report about a layer says what the layer's error says`() {
    let truncated = SocketError(layer: TLSError(.truncated), operation: "read")
    #expect(truncated.isRetryable && truncated.isCausedByPeer && !truncated.isTimeout)
    let slow = SocketError(layer: TLSError(.handshakeTimedOut), operation: "handshake")
    #expect(slow.isRetryable && slow.isTimeout)
    let expired = SocketError(layer: TLSError(.expired), operation: "handshake")
    #expect(!expired.isRetryable && expired.isCausedByPeer)
    #expect(!SocketError(layer: CancellationError(), operation: "handshake").isRetryable)
  }

  @Test func `The error of a pipe says what the error of its stream says, and which stream it is`() {
    let slow = PipeError(.second, .writing, SocketError(.timedOut, operation: "write"))
    #expect(slow.isTimeout && slow.isRetryable && slow.isCausedByPeer && SocketError.isCausedByPeer(slow))
    #expect("\(slow)" == "writing to the second stream failed: write: the timeout expired")
    let refused = PipeError(.first, .reading, TLSError(.expired))
    #expect(!refused.isTimeout && !refused.isRetryable && refused.isCausedByPeer)
    let closed = PipeError(.first, .reading, SocketError(.closed, operation: "read"))
    #expect(!closed.isTimeout && !closed.isRetryable && !closed.isCausedByPeer)
  }

  @Test func `A batch may be sent again if each of its datagrams may`() {
    func batch(_ codes: SocketError.Code...) -> any NetworkError {
      let failures = codes.enumerated().map {
        DatagramBatchError.Failure(index: $0.offset, error: SocketError($0.element, operation: "send"))
      }
      return DatagramBatchError(sent: 1, failures: failures)
    }
    #expect(batch(.timedOut, .timedOut).isTimeout)
    #expect(batch(.timedOut, .unreachable).isRetryable && !batch(.timedOut, .unreachable).isTimeout)
    #expect(!batch(.timedOut, .invalidArgument).isRetryable)
  }
}
