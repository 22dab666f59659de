import ActorSockets
import Glibc
import SocketSystem

/// A blocking socket of the plain kind: the peer of what is tested, or a descriptor to adopt.
///
/// It is closed by `close`, `reset` or `release`, at the latest by `deinit`. Its calls give up after 20 seconds. What may
/// wait is async and waits on a thread of its own, for the pool has few.
final class RawSocket: Sendable {
  private let descriptor: Guarded<Int32>

  /// The number, -1 when it is closed.
  var number: Int32 { descriptor.withLock { $0 } }

  init(owning number: Int32) {
    descriptor = Guarded(number)
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
  static func listening(backlog: Int32 = 128, on address: SocketAddress = .ipv4(.loopback, port: 0)) throws -> RawSocket
  {
    let listener = try tcp(address.family)
    try Socket(listener.number).bind(to: address)
    try Socket(listener.number).listen(backlog: backlog)
    return listener
  }

  static func connected(to address: SocketAddress) throws -> RawSocket {
    let client = try tcp(address.family)
    _ = try Socket(client.number).connect(to: address)
    return client
  }

  /// Where it is bound.
  var address: SocketAddress {
    get throws {
      guard let address = try Socket(number).localAddress() else {
        throw SystemError(call: "getsockname", errno: ENOENT)
      }
      return address
    }
  }

  func accept() async throws -> RawSocket { try await onThread { try self.acceptNow() } }

  private func acceptNow() throws -> RawSocket {
    let accepted = Glibc.accept(number, nil, nil)
    if accepted < 0 { throw SystemError(call: "accept", errno: errno) }
    return RawSocket(owning: accepted)
  }

  /// Sends everything.
  func send(_ bytes: [UInt8]) throws {
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

  func send(_ text: String) throws { try send(Array(text.utf8)) }

  /// Sends one byte out of band.
  func sendUrgent(_ byte: UInt8) throws {
    // SAFETY: one byte is read from where one is.
    let count = unsafe withUnsafeBytes(of: byte) {
      unsafe Glibc.send(number, $0.baseAddress, 1, Int32(MSG_OOB) | Int32(MSG_NOSIGNAL))
    }
    if count < 0 { throw SystemError(call: "send", errno: errno) }
  }

  /// Receives what there is; none at the end of the stream.
  func receive(atMost limit: Int = 65_536) async throws -> [UInt8] {
    try await onThread { try self.receiveNow(atMost: limit) }
  }

  /// Receives so many bytes; fewer at the end of the stream.
  func receive(exactly length: Int) async throws -> [UInt8] {
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

  func receiveToEnd() async throws -> [UInt8] { try await receive(exactly: .max) }

  private func receiveNow(atMost limit: Int) throws -> [UInt8] {
    var buffer = [UInt8](repeating: 0, count: min(limit, 65_536))
    // SAFETY: recv writes no more than the buffer has room for.
    let count = unsafe buffer.withUnsafeMutableBytes { unsafe recv(number, $0.baseAddress, $0.count, 0) }
    if count < 0 { throw SystemError(call: "recv", errno: errno) }
    return Array(buffer[..<count])
  }

  func finishWriting() { shutdown(number, Int32(SHUT_WR)) }

  func close() {
    let number = release()
    if number >= 0 { _ = Glibc.close(number) }
  }

  /// Closes it with RST.
  func reset() {
    try? Socket(number).resetOnClose()
    close()
  }

  /// Gives the number away.
  func release() -> Int32 {
    descriptor.withLock { number in
      defer { number = -1 }
      return number
    }
  }

  /// Two connected TCP sockets on the loopback address.
  static func pair(on address: SocketAddress = .ipv4(.loopback, port: 0)) throws -> (RawSocket, RawSocket) {
    let listener = try listening(on: address)
    let client = try connected(to: listener.address)
    return (client, try listener.acceptNow())
  }

  /// Two connected unix sockets.
  static func unixPair() throws -> (RawSocket, RawSocket) {
    var ends: [Int32] = [-1, -1]
    // SAFETY: socketpair writes two ints, which the array has.
    if unsafe socketpair(AF_UNIX, Int32(SOCK_STREAM.rawValue) | Int32(SOCK_CLOEXEC.rawValue), 0, &ends) != 0 {
      throw SystemError(call: "socketpair", errno: errno)
    }
    return (RawSocket(owning: ends[0]), RawSocket(owning: ends[1]))
  }

  /// A connection whose peer is a raw socket.
  static func peerOfConnection(
    configuration: TCPConnection.Configuration = .init(), on reactor: Reactor = .shared
  ) throws -> (TCPConnection, RawSocket) {
    let (near, far) = try pair()
    let connection = try TCPConnection.adopt(
      fileDescriptor: near.number, configuration: configuration, reactor: reactor)
    _ = near.release()
    return (connection, far)
  }
}

/// Runs a call that blocks on a thread of its own.
func onThread<Value: Sendable>(_ body: @escaping @Sendable () throws -> Value) async throws -> Value {
  try await withCheckedThrowingContinuation { continuation in
    do {
      try startThread(name: "blocking") { continuation.resume(with: Result(catching: body)) }
    } catch {
      continuation.resume(throwing: error)
    }
  }
}

/// The descriptors that this process has open.
func openDescriptors() -> Int {
  // SAFETY: the directory is used until it is closed, once, at the end.
  guard let directory = unsafe opendir("/proc/self/fd") else { return -1 }
  defer { unsafe closedir(directory) }
  var count = 0
  while unsafe readdir(directory) != nil { count += 1 }
  // "." and "..", and the one that lists them.
  return count - 3
}

/// The threads of this process with this name.
func threads(named name: String) -> Int {
  // SAFETY: the directory and the files are used until they are closed, once each; the names in entries end with a NUL.
  guard let directory = unsafe opendir("/proc/self/task") else { return -1 }
  defer { unsafe closedir(directory) }
  var count = 0
  while let entry = unsafe readdir(directory) {
    let id = unsafe withUnsafePointer(to: &entry.pointee.d_name) { pointer in
      unsafe pointer.withMemoryRebound(to: CChar.self, capacity: 256) { unsafe String(cString: $0) }
    }
    guard let file = unsafe fopen("/proc/self/task/\(id)/comm", "r") else { continue }
    defer { unsafe fclose(file) }
    var line = [CChar](repeating: 0, count: 64)
    guard unsafe fgets(&line, 64, file) != nil else { continue }
    let text = String(decoding: line.prefix { $0 != 0 && $0 != 10 }.map { UInt8(bitPattern: $0) }, as: UTF8.self)
    if text == name { count += 1 }
  }
  return count
}
