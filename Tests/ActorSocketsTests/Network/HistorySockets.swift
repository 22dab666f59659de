import SocketSystem
import TestSupport

/// The sockets of a history while it runs, in numbered places, and a poller.
final class HistorySockets {
  static let places = 5

  let epoll: any Poller
  let batch = DatagramBatch()
  var files: [UnixSocketFile?] = Array(repeating: nil, count: HistorySockets.places)
  private var events = EventBuffer()
  private var open: [Int32?] = Array(repeating: nil, count: HistorySockets.places)
  /// The names that were seen, in this order.
  private var names: [String] = []

  init() throws { epoll = try makePoller() }

  deinit { for number in open { if let number { _ = OwnedDescriptor(owning: number) } } }

  /// `nil` if the place is free.
  subscript(place: Int) -> BorrowedDescriptor? { open[place].map { BorrowedDescriptor($0) } }

  var all: [BorrowedDescriptor] { open.compactMap { $0.map { BorrowedDescriptor($0) } } }

  func make(in place: Int, _ make: () throws -> OwnedDescriptor) throws -> String {
    if open[place] != nil { return "taken" }
    open[place] = try make().release()
    return "done"
  }

  func accept(from listener: BorrowedDescriptor, into place: Int) throws -> String {
    if open[place] != nil { return "taken" }
    guard let accepted = try listener.accept() else { return "nothing waits" }
    let peer = accepted.peer
    open[place] = accepted.take().release()
    return name(peer)
  }

  func close(_ place: Int) {
    files[place] = nil
    if let number = open[place].take() { _ = OwnedDescriptor(owning: number) }
  }

  /// Puts a descriptor into the first free place, or closes it.
  func keep(_ descriptor: consuming OwnedDescriptor) -> String {
    guard let place = open.firstIndex(of: nil) else { return "closed" }
    open[place] = descriptor.release()
    return "\(place)"
  }

  /// The events that wait.
  func poll() -> String {
    let count = epoll.take(&events)
    // Two sockets that had the same place can have the same token.
    return (0..<count).map { (events[$0].token, events[$0].readiness.rawValue) }.sorted { $0 < $1 }.map { "\($0)" }
      .joined(separator: " ")
  }

  /// An address. In place of a port or a name that the kernel has chosen, which differs from run to run, it has a number: how many others
  /// were seen before.
  func name(_ address: SocketAddress?) -> String {
    guard let address else { return "no address" }
    if case .unix(let path) = address {
      return path.isAbstract && path.description.utf8.count == 6 ? "free name #\(number(of: "\(path)"))" : "\(path)"
    }
    // The histories send to port 1, on which there is no socket.
    guard let port = address.port, port > 1 else { return "\(address)" }
    return "\(address.with(port: 0)) #\(number(of: "\(port)"))"
  }

  private func number(of name: String) -> Int {
    if !names.contains(name) { names.append(name) }
    return names.firstIndex(of: name) ?? -1
  }

  func port(of place: Int) throws -> UInt16 { try self[place]?.localAddress()?.port ?? 0 }
}
