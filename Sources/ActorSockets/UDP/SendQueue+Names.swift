internal import SocketSystem

extension SendQueue {
  /// Takes the addresses of a peer's name, or the error of a look-up. Does nothing if no such name is being looked up any more.
  mutating func resolve(_ id: UInt64, _ addresses: Result<[SocketAddress], SocketError>) {
    guard let index = entries.index(of: id) else { return }
    entries.change(index) { entry in
      switch (entry.content, addresses) {
      case (.lookingUpPeer, .success(let addresses)): entry.content = .peer(addresses)
      case (.lookingUp(let datagram), .failure(let error)):
        queuedBytes -= datagram.bytes.count
        entry.content = .failed(error)
      case (.lookingUpPeer, .failure(let error)): entry.content = .failed(error)
      default: break
      }
    }
  }

  func datagram(ofName id: UInt64) -> Datagram? {
    guard let index = entries.index(of: id), case .lookingUp(let datagram) = entries[index].content else { return nil }
    return datagram
  }

  /// `nil` if a filter dropped the datagram.
  mutating func resolve(_ id: UInt64, to datagram: Datagram?) {
    guard let index = entries.index(of: id) else { return }
    let old = entries[index].content.bytes
    entries.change(index) { $0.content = .datagrams(datagram.map { [$0] } ?? []) }
    queuedBytes += entries[index].content.bytes - old
  }
}
