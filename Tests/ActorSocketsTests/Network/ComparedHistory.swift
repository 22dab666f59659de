import SocketSystem
import TestSupport
import Testing

@testable import ActorSocketsTesting

/// A sequence of calls on a few sockets that a seed decides. It can be made on Linux and on a simulated kernel. Both run the same code: the
/// calls of `SocketSystem`.
protocol ComparedHistory {
  var seed: UInt64 { get }

  /// Makes the calls.
  ///
  /// - Parameters:
  ///   - sockets: The places of the sockets, all of them free.
  ///   - settle: Called after each call; lets packets arrive.
  /// - Returns: A line for each call.
  func outcomes(_ sockets: HistorySockets, _ settle: () -> Void) -> [String]

  /// Makes the calls on Linux.
  func onLinux() throws -> [String]

  /// Makes the calls on a simulated host. It may end before the last one, if Linux may do several things then.
  func simulated() throws -> [String]
}

extension ComparedHistory {
  func onLinux() throws -> [String] { outcomes(HistorySockets(try makePoller())) {} }

  func simulated() throws -> [String] {
    let network = SimulatedNetwork(now: 1_000_000_000, seed: seed)
    _ = network.addHost("host")
    return try CurrentSystem.using(SystemHolder(network)) {
      outcomes(HistorySockets(try makePoller())) { network.advance() }
    }
  }
}

/// Compares the histories of some seeds, and records an issue for each in which the two kernels differ.
///
/// - Returns: The number of those in which Linux does not do the same every time.
func compareWithLinux(_ seeds: Range<UInt64>, _ history: (UInt64) -> any ComparedHistory) throws -> Int {
  var undecided = 0
  for seed in seeds {
    let history = history(seed)
    let simulated = try history.simulated()
    func onLinux() throws -> [String] { Array(try history.onLinux().prefix(simulated.count)) }
    if try onLinux() == simulated { continue }
    // Linux may have been late with a packet, or another process may have held a lock. Only what it does every time is compared.
    let again = try (0..<3).map { _ in try onLinux() }
    if again.contains(simulated) {
      undecided += 1
      continue
    }
    let index = zip(again[0], simulated).enumerated().first { $1.0 != $1.1 }?.offset ?? 0
    let before = again[0][..<index].joined(separator: "\n")
    Issue.record("seed \(seed): Linux: \(again[0][index]), simulated: \(simulated[index]), after:\n\(before)")
  }
  return undecided
}

/// The sockets of a history while it runs, in numbered places, and a poller.
final class HistorySockets {
  /// The number of places.
  static let count = 5

  let epoll: any Poller
  private var events = EventBuffer()
  private var open: [Int32?] = Array(repeating: nil, count: HistorySockets.count)
  /// The names that were seen, in this order.
  private var names: [String] = []

  init(_ epoll: any Poller) { self.epoll = epoll }

  deinit { for number in open { if let number { _ = OwnedDescriptor(owning: number) } } }

  /// The socket in a place; `nil` if the place is free.
  subscript(place: Int) -> BorrowedDescriptor? { open[place].map { BorrowedDescriptor($0) } }

  /// The sockets that are open.
  var all: [BorrowedDescriptor] { open.compactMap { $0.map { BorrowedDescriptor($0) } } }

  /// Puts a new socket into a place, if that is free.
  func make(in place: Int, _ make: () throws -> OwnedDescriptor) throws -> String {
    if open[place] != nil { return "taken" }
    open[place] = try make().release()
    return "done"
  }

  /// Accepts a connection into a place, if that is free.
  func accept(from listener: Int, into place: Int, _ name: (SocketAddress?) -> String) throws -> String {
    guard let socket = self[listener] else { return "none" }
    if open[place] != nil { return "taken" }
    guard let accepted = try socket.accept() else { return "nothing waits" }
    let peer = accepted.peer
    open[place] = accepted.take().release()
    return name(peer)
  }

  /// Closes the socket in a place.
  func close(_ place: Int) -> String {
    guard let number = open[place].take() else { return "none" }
    _ = OwnedDescriptor(owning: number)
    return "done"
  }

  /// The events that wait.
  func poll() -> String {
    let count = epoll.take(&events)
    // Two sockets that had the same place can have the same token.
    return (0..<count).map { (events[$0].token, events[$0].readiness.rawValue) }.sorted { $0 < $1 }.map { "\($0)" }
      .joined(separator: " ")
  }

  /// The number of a name that the kernel has chosen, which differs from run to run: how many others were seen before it.
  func number(of name: String) -> Int {
    if !names.contains(name) { names.append(name) }
    return names.firstIndex(of: name) ?? -1
  }

  /// An IP address with the number of its port in this run. Ports up to `highest` are the same in each run.
  func name(_ address: SocketAddress?, knownPortsUpTo highest: UInt16 = 0) -> String {
    guard let address, let port = address.port else { return "no address" }
    return port <= highest ? "\(address)" : "\(address.with(port: 0)) #\(number(of: "\(port)"))"
  }

  /// What a call returns or throws.
  static func outcome(_ call: () throws -> String) -> String {
    do {
      return try call()
    } catch let error as SystemError {
      return "\(error)"
    } catch {
      return "?"
    }
  }
}

extension Transfer {
  /// What it has done, in a line of a history.
  var outcome: String {
    switch self {
    case .bytes(let count): "\(count) bytes"
    case .wouldBlock: "would block"
    case .failed(let error): "\(error.errno)"
    }
  }
}

extension SeededRandom {
  /// A number from 0 to `limit - 1`.
  mutating func below(_ limit: Int) -> Int { Int(next() % UInt64(limit)) }
}
