import Glibc
package import SocketSystem

/// A blocking socket of the plain kind: the peer of what is tested, or a descriptor to adopt.
///
/// It is closed by `close`, `reset` or `release`, at the latest by `deinit`. Its calls give up after 20 seconds.
/// Calls that may wait are async and wait on a thread of their own, because the pool has few threads.
package final class RawSocket: Sendable {
  private let descriptor: Locked<Int32>

  /// The number, -1 when it is closed.
  package var number: Int32 { descriptor.withLock { $0 } }

  package init(owning number: Int32) {
    descriptor = Locked(number)
    // SAFETY: the options read one struct timeval, which `limit` is.
    var limit = timeval(tv_sec: 20 * patience, tv_usec: 0)
    unsafe setsockopt(number, SOL_SOCKET, SO_RCVTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
    unsafe setsockopt(number, SOL_SOCKET, SO_SNDTIMEO, &limit, socklen_t(MemoryLayout<timeval>.size))
  }

  deinit { close() }

  private static func tcp(_ family: Int32) throws -> RawSocket {
    let number = socket(family, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0)
    if number < 0 { throw SystemError(call: "socket", errno: errno) }
    return RawSocket(owning: number)
  }

  /// Listens on a free port of the loopback address.
  package static func listening(backlog: Int32 = 128, on address: SocketAddress = .ipv4(.loopback, port: 0)) throws
    -> RawSocket
  {
    let listener = try tcp(address.family)
    try BorrowedDescriptor(listener.number).bind(to: address)
    try BorrowedDescriptor(listener.number).listen(backlog: backlog)
    return listener
  }

  package static func connected(from source: SocketAddress? = nil, to address: SocketAddress) throws -> RawSocket {
    let client = try tcp(address.family)
    if let source { try BorrowedDescriptor(client.number).bind(to: source) }
    _ = try BorrowedDescriptor(client.number).connect(to: address)
    return client
  }

  package var address: SocketAddress {
    get throws {
      guard let address = try BorrowedDescriptor(number).localAddress() else {
        throw SystemError(call: "getsockname", errno: ENOENT)
      }
      return address
    }
  }

  package func accept() async throws -> RawSocket { try await onThread { try self.acceptNow() } }

  /// Blocks the thread until there is one.
  package func acceptNow() throws -> RawSocket {
    let accepted = Glibc.accept(number, nil, nil)
    if accepted < 0 { throw SystemError(call: "accept", errno: errno) }
    return RawSocket(owning: accepted)
  }

  package func send(_ bytes: [UInt8]) throws {
    var sent = 0
    while sent < bytes.count {
      // SAFETY: the pointer stays within the array, which only is read.
      let count = unsafe bytes.withUnsafeBytes {
        unsafe Glibc.send(number, $0.baseAddress?.advanced(by: sent), $0.count - sent, Int32(MSG_NOSIGNAL))
      }
      if count < 0 { throw SystemError(call: "send", errno: errno) }
      sent += count
    }
  }

  package func send(_ text: String) throws { try send(Array(text.utf8)) }

  package func sendUrgent(_ byte: UInt8) throws {
    // SAFETY: one byte is read from where one is.
    let count = unsafe withUnsafeBytes(of: byte) {
      unsafe Glibc.send(number, $0.baseAddress, 1, Int32(MSG_OOB) | Int32(MSG_NOSIGNAL))
    }
    if count < 0 { throw SystemError(call: "send", errno: errno) }
  }

  /// Receives the next bytes; an empty array at the end of the stream.
  package func receive(atMost limit: Int = 65_536) async throws -> [UInt8] {
    try await onThread { try self.receiveNow(atMost: limit) }
  }

  /// Receives `length` bytes, or fewer at the end of the stream.
  package func receive(exactly length: Int) async throws -> [UInt8] {
    try await onThread {
      var bytes: [UInt8] = []
      while bytes.count < length {
        let more = try self.receiveNow(atMost: length - bytes.count)
        if more.isEmpty { break }
        bytes += more
      }
      return bytes
    }
  }

  package func receiveToEnd() async throws -> [UInt8] { try await receive(exactly: .max) }

  /// Blocks the thread until something is there.
  package func receiveNow(atMost limit: Int) throws -> [UInt8] {
    var buffer = [UInt8](repeating: 0, count: min(limit, 65_536))
    // SAFETY: recv writes no more than the buffer has room for.
    let count = unsafe buffer.withUnsafeMutableBytes { unsafe recv(number, $0.baseAddress, $0.count, 0) }
    if count < 0 { throw SystemError(call: "recv", errno: errno) }
    return Array(buffer[..<count])
  }

  package func finishWriting() { shutdown(number, Int32(SHUT_WR)) }

  package func close() {
    let number = release()
    if number >= 0 { _ = Glibc.close(number) }
  }

  package func reset() {
    try? BorrowedDescriptor(number).resetOnClose()
    close()
  }

  package func release() -> Int32 {
    descriptor.withLock { number in
      defer { number = -1 }
      return number
    }
  }

  package static func pair(on address: SocketAddress = .ipv4(.loopback, port: 0)) throws -> (RawSocket, RawSocket) {
    let listener = try listening(on: address)
    let client = try connected(to: listener.address)
    return (client, try listener.acceptNow())
  }

  package static func unixPair() throws -> (RawSocket, RawSocket) {
    var ends: [Int32] = [-1, -1]
    // SAFETY: socketpair writes two ints, which the array has.
    if unsafe socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0, &ends) != 0 {
      throw SystemError(call: "socketpair", errno: errno)
    }
    return (RawSocket(owning: ends[0]), RawSocket(owning: ends[1]))
  }
}
