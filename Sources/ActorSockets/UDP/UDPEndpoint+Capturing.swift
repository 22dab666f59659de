internal import SocketSystem

// Recording for a `PacketCapture`. The calls are not inlined, because most endpoints are not captured.

extension UDPEndpoint {
  /// The address from which a socket sends, as far as it is known.
  private func source(_ index: Int) -> SocketAddress {
    core.routes.peer?.index == index ? localAddress ?? bound.addresses[index] : bound.addresses[index]
  }

  @inline(never)
  func recordReceived(_ batch: DatagramBatch, _ count: Int, through index: Int) {
    let local = source(index)
    for number in 0..<count {
      let metadata = configuration.metadata.isEmpty ? nil : batch.metadata(number)
      let address = batch.address(number)
      batch.withBytes(number) { counts.recorder?.record($0, .inbound, local: local, remote: address, metadata) }
    }
  }

  @inline(never)
  func recordSent(_ bytes: Span<UInt8>, on route: DatagramRoutes.Route, _ metadata: DatagramMetadata? = nil) {
    counts.recorder?.record(
      bytes, .outbound, local: source(route.index), remote: route.destination ?? core.routes.peer?.address, metadata)
  }
}
