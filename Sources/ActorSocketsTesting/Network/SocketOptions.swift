internal import SocketSystem

/// The options of a simulated socket: socket(7), tcp(7), ip(7), ipv6(7). An accepted socket starts with a copy of its listener's. Options
/// that change nothing in a simulation are kept, so that reading them returns what was set.
struct SocketOptions {
  private var kept: [RawOption: [UInt8]] = [:]

  var reusesAddress = false
  var reusesPort = false
  var isIPv6Only = false
  var keepsAlive = false
  var keepAlive = TCPLiveness.KeepAlive(idle: 7_200 * TCPMachine.second, interval: 75 * TCPMachine.second, count: 9)
  var userTimeout: Int64 = 0
  /// SO_LINGER with a time of zero: close(2) resets.
  var discardsOnClose = false
  var sendBuffer: Int?
  var receiveBuffer: Int?
  /// TCP_NODELAY.
  var isEager = false
  var congestionControl = TCPCongestion.Algorithm.cubic

  mutating func set(_ option: RawOption, to value: [UInt8]) -> Int32 {
    guard value.count >= 4 || option.isText else { return -Errno.invalidArgument }
    let number = value.count >= 4 ? Int32(kernelBytes: value) : 0
    if option.isHopLimit, number == -1 {
      kept[option] = nil
      return 0
    }
    switch option {
    case .reuseAddress: reusesAddress = number != 0
    case .reusePort: reusesPort = number != 0
    case .ipv6Only: isIPv6Only = number != 0
    case .linger: discardsOnClose = number != 0 && Int32(kernelBytes: Array(value.dropFirst(4))) == 0
    case .keepAlive: keepsAlive = number != 0
    case .keepAliveIdle where !(1...32_767).contains(number), .keepAliveInterval where !(1...32_767).contains(number):
      return -Errno.invalidArgument
    case .keepAliveCount where !(1...127).contains(number): return -Errno.invalidArgument
    case .userTimeout where number < 0: return -Errno.invalidArgument
    case .keepAliveIdle: keepAlive.idle = Int64(number) * TCPMachine.second
    case .keepAliveInterval: keepAlive.interval = Int64(number) * TCPMachine.second
    case .keepAliveCount: keepAlive.count = Int(number)
    case .userTimeout: userTimeout = Int64(number) * 1_000_000
    // The kernel doubles what is set, and has least values: socket(7).
    case .sendBuffer:
      sendBuffer = max(4_608, 2 * Int(number))
      return 0
    case .receiveBuffer:
      receiveBuffer = max(2_304, 2 * Int(number))
      return 0
    case .noDelay: isEager = number != 0
    case .congestionControl:
      guard let algorithm = TCPCongestion.Algorithm(name: value) else { return -Errno.noSuchFile }
      congestionControl = algorithm
      return 0
    case .pendingError, .type, .protocol, .domain, .isListening: return -Errno.noProtocolOption
    default: break
    }
    kept[option] = value
    return 0
  }

  func value(_ option: RawOption) -> [UInt8] {
    if let value = kept[option] { return value }
    switch option {
    // The buffers of an open TCP connection, before they grow.
    case .sendBuffer: return Int32(clamping: sendBuffer ?? TCPSending().bufferSize).kernelBytes
    case .receiveBuffer: return Int32(clamping: receiveBuffer ?? 2 * TCPReceiving().bufferSize).kernelBytes
    case .congestionControl: return congestionControl.name
    case .linger: return RawOption.lingerValue(seconds: nil)
    case .keepAliveIdle: return Int32(7_200).kernelBytes
    case .keepAliveInterval: return Int32(75).kernelBytes
    case .keepAliveCount: return Int32(9).kernelBytes
    case .multicastHopLimit(isIPv4: true), .multicastHopLimit(isIPv4: false), .multicastLoopback(isIPv4: true),
      .multicastLoopback(isIPv4: false), .multicastAll(isIPv4: true), .multicastAll(isIPv4: false):
      return Int32(1).kernelBytes
    default: return Int32(option.isHopLimit ? 64 : 0).kernelBytes
    }
  }

  /// Half of a size that the program has set counts, because the kernel's number includes its own memory for each packet.
  func apply(to machine: inout TCPMachine) {
    machine.liveness.keepAlive = keepsAlive ? keepAlive : nil
    machine.liveness.userTimeout = userTimeout
    machine.sending.isEager = isEager
    machine.repair.recovery.congestion.algorithm = congestionControl
    if let sendBuffer { machine.setSendBuffer(sendBuffer / 2) }
    if let receiveBuffer { machine.receiving.bufferSize = receiveBuffer / 2 }
  }
}
