import SocketSystem
import TestSupport

struct HistoryCall {
  typealias Body<Result> = (HistorySockets, BorrowedDescriptor) throws -> Result

  let text: String
  private let make: (HistorySockets) throws -> String

  static func get(_ place: Int, _ name: String, _ body: @escaping Body<String>) -> HistoryCall {
    HistoryCall(text: "\(name) \(place)") { sockets in
      guard let socket = sockets[place] else { return "no socket" }
      return try body(sockets, socket)
    }
  }

  static func `do`(_ place: Int, _ name: String, _ body: @escaping Body<Void>) -> HistoryCall {
    .get(place, name) {
      try body($0, $1)
      return "done"
    }
  }

  func outcome(_ sockets: HistorySockets) -> String {
    do {
      return try make(sockets)
    } catch let error as SystemError {
      return "\(error)"
    } catch {
      return "?"
    }
  }

  // MARK: Calls

  static var poll: HistoryCall { HistoryCall(text: "poll") { $0.poll() } }

  static func make(_ place: Int, _ kind: HistoryKind, _ domain: Int32) -> HistoryCall {
    HistoryCall(text: "\(kind) of \(domain) \(place)") {
      try $0.make(in: place) {
        if kind == .datagram { return try OwnedDescriptor.datagramSocket(family: domain) }
        let descriptor = try OwnedDescriptor.streamSocket(family: domain)
        // Without it, what is sent depends on when the peer acknowledges, which Linux puts off.
        if domain != SocketKind.unix { try descriptor.socket.set(.noDelay, to: 1) }
        return descriptor
      }
    }
  }

  static func set(_ place: Int, _ option: RawOption, _ value: Int) -> HistoryCall {
    .do(place, "set \(option) \(value)") { try $1.set(option, to: Int32(value)) }
  }

  static func listen(_ place: Int, backlog: Int) -> HistoryCall {
    .do(place, "listen \(backlog)") { try $1.listen(backlog: Int32(backlog)) }
  }

  static func accept(_ place: Int, into other: Int) -> HistoryCall {
    .get(place, "accept into \(other)") { try $0.accept(from: $1, into: other) }
  }

  static func watch(_ place: Int) -> HistoryCall {
    .do(place, "watch") { try $0.epoll.add($1.number, token: UInt64(place)) }
  }

  static func disconnect(_ place: Int) -> HistoryCall { .do(place, "disconnect") { try $1.disconnect() } }

  // MARK: Addresses

  static func bind(_ place: Int, _ address: HistoryAddress) -> HistoryCall {
    .get(place, "bind to \(address)") {
      guard let address = try address.find($0, $1) else { return "no address" }
      try $1.bind(to: address)
      return "done"
    }
  }

  static func connect(_ place: Int, _ address: HistoryAddress) -> HistoryCall {
    .get(place, "connect to \(address)") {
      guard let target = try address.find($0, $1) else { return "no address" }
      return "\(try $1.connect(to: target))"
    }
  }

  // MARK: Bytes

  /// Without an address it sends to the peer.
  static func send(_ place: Int, _ count: Int, to address: HistoryAddress? = nil) -> HistoryCall {
    .get(place, "send \(count) to \(address?.description ?? "the peer")") {
      guard let address else { return $1.send(pattern(count).span, to: nil).outcome }
      guard let target = try address.find($0, $1), try !$1.isStream() else { return "no address" }
      return $1.send(pattern(count).span, to: target).outcome
    }
  }

  static func sendBatch(_ place: Int, _ sizes: [Int], to address: HistoryAddress) -> HistoryCall {
    .get(place, "send \(sizes) to \(address)") {
      guard let target = try address.find($0, $1), let batch = $0.batch, try !$1.isStream() else { return "no address" }
      batch.clear()
      for size in sizes { _ = batch.add(pattern(size).span, to: target, nil, isIPv6: target.unmapped.isIPv6) }
      return "\(try batch.send(on: $1))"
    }
  }

  static func receive(_ place: Int, _ count: Int) -> HistoryCall {
    .get(place, "receive \(count)") {
      var bytes: [UInt8] = []
      return $1.receive(appendingTo: &bytes, atMost: count).outcome + " " + ends(bytes)
    }
  }

  static func peek(_ place: Int, _ count: Int) -> HistoryCall {
    .get(place, "peek \(count)") {
      var bytes: [UInt8] = []
      return $1.peek(into: &bytes, atMost: count).outcome + " " + ends(bytes)
    }
  }

  static func receiveBatch(_ place: Int, atMost limit: Int, size: Int) -> HistoryCall {
    .get(place, "receive \(limit) of \(size)") { sockets, socket in
      guard let batch = sockets.batch, try !socket.isStream() else { return "a stream" }
      let count = try batch.receive(from: socket, atMost: limit, size: size, withMetadata: true)
      return (0..<count).map { describe($0, of: batch, sockets) }.joined(separator: "; ")
    }
  }

  private static func describe(_ index: Int, of batch: DatagramBatch, _ sockets: HistorySockets) -> String {
    func text<Value>(_ value: Value?) -> String { value.map { "\($0)" } ?? "-" }
    let metadata = batch.metadata(index)
    // With metadata there is room for descriptors, too. This closes them.
    let lost = batch.takeDescriptors(index, atMost: 0).someAreLost ? " without descriptors" : ""
    return "\(batch.length(index))\(batch.isTruncated(index) ? " cut" : "")\(lost) from"
      + " \(sockets.name(batch.address(index))) by \(Self.text(metadata.peerCredentials)) to"
      + " \(text(metadata.localAddress))%\(metadata.interface) answer \(text(metadata.answerAddress))"
      + " hops \(text(metadata.hopLimit)) class \(text(metadata.trafficClass))"
  }

  static func text(_ credentials: PeerCredentials?) -> String {
    guard let credentials else { return "no process" }
    return credentials.processID == 0 ? "\(credentials.userID)" : "a process"
  }

  private static func ends(_ bytes: [UInt8]) -> String { "\(bytes.count) \(bytes.first ?? 0) \(bytes.last ?? 0)" }
}

enum HistoryKind { case stream, datagram }

struct HistoryAddress: CustomStringConvertible {
  let description: String
  /// Finds the address for a socket that uses it; `nil` if there is no such address now.
  let find: (HistorySockets, BorrowedDescriptor) throws -> SocketAddress?
}

extension Transfer {
  var outcome: String {
    switch self {
    case .bytes(let count): "\(count) bytes"
    case .wouldBlock: "would block"
    case .failed(let error): "\(error.errno)"
    }
  }
}
