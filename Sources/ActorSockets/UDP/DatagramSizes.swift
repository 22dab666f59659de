internal import SocketSystem

/// The largest sizes of an endpoint's datagrams, in bytes.
struct DatagramSizes {
  /// Also of unix datagrams.
  var receiveIPv4: Int
  var receiveIPv6: Int
  var send: Int

  init(_ configuration: UDPEndpoint.Configuration) {
    receiveIPv4 = configuration.maximumReceiveSizeIPv4
    receiveIPv6 = configuration.maximumReceiveSizeIPv6
    send = configuration.maximumSendSize
  }

  /// What a receive has room for.
  var room: Int { max(receiveIPv4, receiveIPv6) }

  /// Throws `.invalidArgument`, as an error of this operation.
  func check(_ operation: String) throws(SocketError) {
    for size in [receiveIPv4, receiveIPv6] where !(1...65_535).contains(size) {
      throw .invalid(operation, "\(size) is not a size that can be received; the range is 1 to 65,535 bytes")
    }
    if send < 0 { throw .invalid(operation, "\(send) is not a size that can be sent; the smallest is 0 bytes") }
  }
}
