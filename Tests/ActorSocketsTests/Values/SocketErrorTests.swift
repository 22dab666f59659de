import SocketSystem
import TestSupport
import Testing

@testable import ActorSockets

@Suite(.tags(.pure)) struct SocketErrorTests {
  @Test(
    arguments: [
      (Errno.connectionReset, .connectionReset), (Errno.brokenPipe, .connectionReset),
      (Errno.connectionAborted, .connectionReset), (Errno.timedOut, .timedOut),
      (Errno.connectionRefused, .connectionRefused), (Errno.addressInUse, .addressInUse),
      (Errno.addressNotAvailable, .addressNotAvailable), (Errno.networkUnreachable, .unreachable),
      (Errno.hostUnreachable, .unreachable), (Errno.networkDown, .unreachable), (Errno.hostDown, .unreachable),
      (Errno.processDescriptors, .tooManyOpenFiles), (Errno.systemDescriptors, .tooManyOpenFiles),
      (Errno.permissionDenied, .permissionDenied), (Errno.notPermitted, .permissionDenied),
      (Errno.readOnly, .permissionDenied), (Errno.notSocket, .notASocket), (Errno.noMemory, .system), (9999, .system),
    ] as [(Int32, SocketError.Code)])
  func `An error number has its code, and the description has the kernel's words`(errno: Int32, code: SocketError.Code)
  {
    let error = SocketError(SystemError(call: "recv", errno: errno), operation: "read")
    #expect(error.code == code)
    #expect(error.errno == errno)
    #expect(error.operation == "read")
    #expect(error.description.hasPrefix("read: "))
    #expect(error.description.hasSuffix("(\(SystemError.message(errno)))"))
    #expect(error.description.contains("recv failed") == (code == .system))
  }

  static let codes: [SocketError.Code] = [
    .closed, .connectionReset, .endOfStream, .timedOut, .limitExceeded, .peerTooSlow, .precedingReadFailed, .upgraded,
    .connectionRefused, .addressInUse, .addressNotAvailable, .hostNotFound, .resolverFailed, .familyNotSupported,
    .scopeMissing, .unreachable, .tooManyOpenFiles, .permissionDenied, .notASocket, .pathNotFound, .notConnected,
    .interfaceNotFound, .alreadyJoined, .notJoined, .invalidArgument, .invalidUTF8, .invalidMessage, .rejected,
    .layerFailed, .reactorShutDown, .system,
  ]

  @Test func `Every code has a name and a sentence of its own`() {
    #expect(Set(Self.codes).count == Self.codes.count)
    #expect(Set(Self.codes.map(\.description)).count == Self.codes.count)
    let sentences = Self.codes.map { SocketError($0, operation: "x").description }
    #expect(Set(sentences).count == Self.codes.count)
    #expect(sentences.allSatisfy { $0.count > 15 && !$0.contains("\n") && !$0.hasSuffix(".") })
  }

  @Test func `The description says what, where, why and how far`() {
    var error = SocketError(
      .connectionRefused, operation: "connect", errno: Errno.connectionRefused, address: .ipv4(.loopback, port: 80))
    #expect(error.description == "connect 127.0.0.1:80: no process listens at this address (Connection refused)")
    error = SocketError(.timedOut, operation: "write", bytesTransferred: 1)
    #expect(error.description == "write: the timeout expired with 1 byte sent")
    error.bytesTransferred = 2
    #expect(error.description == "write: the timeout expired with 2 bytes sent")
    error.detail = "nobody answered"
    #expect(error.description == "write: nobody answered with 2 bytes sent")
    error = SocketError(
      .timedOut, operation: "read", detail: "timed out after 30 s", address: .ipv4(IPv4Address(192, 0, 2, 7), port: 25),
      bytesTransferred: 16)
    #expect(error.description == "read from 192.0.2.7:25: timed out after 30 s with 16 bytes received")
    error.operation = "accept"
    error.bytesTransferred = 0
    #expect(error.description == "accept on 192.0.2.7:25: timed out after 30 s")
    error.code = .connectionReset
    error.detail = ""
    error.bytesTransferred = 1
    #expect(error.description == "accept on 192.0.2.7:25: the peer reset the connection, after 1 byte")
  }

  @Test func `The name of a unix peer cannot break a description into lines`() throws {
    let path = try #require(UnixPath("@a\n\u{1b}[31mroot\u{202e}"))
    let error = SocketError(.connectionReset, operation: "read", address: .unix(path))
    #expect(error.description.unicodeScalars.allSatisfy { $0.value >= 32 && $0.value < 127 }, "\(error)")
  }

  @Test func `The bytes of a bad line are not in the description`() {
    let error = SocketError(.invalidUTF8, operation: "read", bytes: [0x1b, 0xff])
    #expect(error.description == "read: the text is not UTF-8")
  }

  @Test func `An error can be reported for another operation, unless it is only about its own`() {
    #expect(SocketError(.closed, operation: "").during("read").operation == "read")
    #expect(SocketError.invalid("peek", "no").during("read").operation == "peek")
    let connect = SocketError(.connectionRefused, operation: "connect", address: .ipv4(.loopback, port: 80))
    #expect(connect.during("read").operation == "connect")
    let reset = SocketError(.connectionReset, operation: "connection", errno: 104, bytesTransferred: 3).during("write")
    #expect(reset.errno == 104 && reset.bytesTransferred == 3 && reset.code == .connectionReset)
  }
}
