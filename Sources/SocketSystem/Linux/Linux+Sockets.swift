internal import CLinux
import Glibc

extension Linux {
  package func bind(_ number: Int32, to address: SocketAddress) -> Int32 {
    // SAFETY: the address is valid for its length during the call.
    Self.result(unsafe address.withKernelAddress { unsafe Glibc.bind(number, $0, $1) })
  }

  package func listen(_ number: Int32, backlog: Int32) -> Int32 { Self.result(Glibc.listen(number, backlog)) }

  package func connect(_ number: Int32, to address: SocketAddress) -> Int32 {
    // SAFETY: as above.
    let result = Self.result(unsafe address.withKernelAddress { unsafe Glibc.connect(number, $0, $1) })
    // An interrupted connect(2) continues in the background, as any nonblocking one does.
    return result == -EINTR ? -EINPROGRESS : result
  }

  package func disconnect(_ number: Int32) -> Int32 {
    var address = sockaddr()
    address.sa_family = sa_family_t(AF_UNSPEC)
    let length = socklen_t(MemoryLayout<sockaddr>.size)
    // SAFETY: the address is valid for the call, which reads it.
    return Self.result(unsafe withUnsafePointer(to: address) { unsafe Glibc.connect(number, $0, length) })
  }

  package func reset(_ number: Int32) -> Int32 { disconnect(number) }

  package func accept(_ number: Int32) -> (result: Int32, peer: SocketAddress?) {
    var storage = sockaddr_storage()
    var length = UInt32(MemoryLayout<sockaddr_storage>.size)
    // SAFETY: `storage` and `length` are valid for the call, which writes no more than `length` says.
    let result = unsafe withUnsafeMutablePointer(to: &storage) { pointer in
      Int32(clamping: retryingInterrupts { Int(unsafe clinux_accept(number, pointer, &length)) })
    }
    if result < 0 { return (result, nil) }
    // SAFETY: the kernel filled `storage` up to `length`.
    let peer = unsafe withUnsafePointer(to: &storage) { unsafe SocketAddress(storage: $0, length: length) }
    return (Self.aboveStandardStreams(result), peer)
  }

  package func shutdown(_ number: Int32, how: Int32) -> Int32 { Self.result(Glibc.shutdown(number, how)) }

  package func address(of number: Int32, isPeer: Bool) -> (result: Int32, address: SocketAddress?) {
    var storage = sockaddr_storage()
    var length = socklen_t(MemoryLayout<sockaddr_storage>.size)
    // SAFETY: the sockets API allows any sockaddr to be read as a sockaddr_storage; its length is passed too.
    let result = unsafe withUnsafeMutablePointer(to: &storage) { pointer in
      unsafe pointer.withMemoryRebound(to: sockaddr.self, capacity: 1) {
        unsafe isPeer ? getpeername(number, $0, &length) : getsockname(number, $0, &length)
      }
    }
    if result < 0 { return (-errno, nil) }
    // SAFETY: the kernel filled `storage` up to `length`.
    return (0, unsafe withUnsafePointer(to: &storage) { unsafe SocketAddress(storage: $0, length: length) })
  }

  package func isReadable(_ number: Int32) -> Bool {
    var entry = pollfd(fd: number, events: Int16(POLLIN), revents: 0)
    // SAFETY: one struct pollfd is read and written, which `entry` is.
    return unsafe poll(&entry, 1, 0) > 0
  }

  // MARK: Options

  package func setOption(_ option: RawOption, of number: Int32, to value: Int32) -> Int32 {
    var value = value
    // SAFETY: the option reads one int, which `value` is.
    return Self.result(
      unsafe setsockopt(number, option.level, option.name, &value, socklen_t(MemoryLayout<Int32>.size)))
  }

  package func setOption(_ option: RawOption, of number: Int32, to value: [UInt8]) -> Int32 {
    // SAFETY: the option reads no more than the array has.
    let result = unsafe value.withUnsafeBytes {
      unsafe setsockopt(number, option.level, option.name, $0.baseAddress, socklen_t($0.count))
    }
    return Self.result(result)
  }

  package func option(_ option: RawOption, of number: Int32) -> (result: Int32, value: Int32) {
    var value: Int32 = 0
    var size = socklen_t(MemoryLayout<Int32>.size)
    // SAFETY: the option writes one int, which `value` is.
    return (Self.result(unsafe getsockopt(number, option.level, option.name, &value, &size)), value)
  }

  package func option(
    _ option: RawOption, of number: Int32, atMost count: Int
  ) -> (result: Int32, value: [UInt8]) {
    var bytes = [UInt8](repeating: 0, count: count)
    var size = socklen_t(count)
    // SAFETY: the option writes no more than the array has room for.
    let result = unsafe bytes.withUnsafeMutableBytes {
      unsafe getsockopt(number, option.level, option.name, $0.baseAddress, &size)
    }
    return (Self.result(result), Array(bytes.prefix(Int(size))))
  }

  package func tcpInfo(of number: Int32) -> (result: Int32, info: TCPInfo?) {
    var info = clinux_tcp_info()
    // SAFETY: `info` is valid for the call, which fills it.
    let result = unsafe clinux_get_tcp_info(number, &info)
    return (result, result < 0 ? nil : TCPInfo(info))
  }
}
