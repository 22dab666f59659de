import Glibc
import SocketSystem
import TestSupport

/// The names of a history. `rareFile` is seldom there; `foreign` is an IPv4 address.
private enum UnixPlace: CaseIterable { case file, otherFile, abstract, otherAbstract, rareFile, unnamed, foreign }

extension History {
  /// Most begin with a connection. Its files are in the folder.
  static func unix(seed: UInt64, in folder: String) -> History {
    var history = History(seed: seed)
    history.cleanUp = { for name in ["file", "other", "rare"] { unsafe unlink("\(folder)/\(seed)\(name)") } }
    let start = history.below(5)
    if start < 2 { history.beginWithStreams(folder) } else if start < 4 { history.beginWithDatagrams(folder) }
    history.add(5 + history.below(35)) { $0.unixCall(mostly: start >= 2 ? .datagram : .stream, folder) }
    history.add(.poll)
    return history
  }

  private mutating func beginWithStreams(_ folder: String) {
    let name = name(unixPlace(), folder)
    add(
      .make(0, .stream, SocketKind.unix), .bind(0, name), .listen(0, backlog: below(3)),
      .make(1, .stream, SocketKind.unix))
    if isOne(of: 2) { add(.watch(0), .watch(1)) }
    add(.connect(1, name))
    if !isOne(of: 4) { add(.accept(0, into: 2)) }
    if isOne(of: 2) { add(.watch(2), .poll) }
  }

  private mutating func beginWithDatagrams(_ folder: String) {
    let places: [UnixPlace] = isOne(of: 2) ? [.file, .otherFile] : [.abstract, .otherAbstract]
    let names = places.map { name($0, folder) }
    for place in 0..<3 where !isOne(of: 8) {
      add(.make(place, .datagram, SocketKind.unix))
      if isOne(of: 2) { add(.watch(place)) }
      if place < 2, !isOne(of: 6) { add(.bind(place, names[place])) }
      if isOne(of: 3) { add(.receivesCredentials(place, 1)) }
    }
    if isOne(of: 2) { add(.connect(1, names[0])) }
    if isOne(of: 3) { add(.connect(0, names[1])) }
    // Enough to fill a queue.
    if isOne(of: 4) { add(9 + below(4)) { $0.isOne(of: 3) ? .send(2, 5, to: names[0]) : .send(1, 3) } }
  }

  private static let large = 200_000..<240_000

  private mutating func unixPlace() -> UnixPlace {
    isOne(of: 4) ? pick(UnixPlace.allCases) : pick([.file, .file, .abstract])
  }

  private mutating func unixCall(mostly kind: HistoryKind, _ folder: String) -> HistoryCall {
    let (one, other, name) = (place(), place(), name(unixPlace(), folder))
    switch below(72) {
    case 0...2: return .make(one, isOne(of: 6) ? (kind == .stream ? .datagram : .stream) : kind, SocketKind.unix)
    case 3, 4: return .bind(one, name)
    case 5: return .bind(one, HistoryAddress(description: "a free name") { _, _ in .unix(.unnamed) })
    case 6, 7: return makeFile(one, backlog: kind == .datagram ? nil : Int32(below(3)), folder)
    case 8: return .do(one, "remove file") { sockets, _ in sockets.files[one]?.remove() }
    case 9: return .listen(one, backlog: below(3))
    case 10...13: return .connect(one, name)
    case 14: return .disconnect(one)
    case 15, 16: return .accept(one, into: other)
    case 17...22: return .send(one, size(Self.large, 50_000))
    case 23...25: return kind == .datagram ? .send(one, size(Self.large, 50_000), to: name) : .accept(one, into: other)
    case 26: return .sendBatch(one, sizes(Self.large, 50_000), to: name)
    case 27...31: return .receive(one, isOne(of: 2) ? 1 + below(200) : 100_000)
    case 32...34: return .receiveBatch(one, atMost: 1 + below(6), size: 1 + below(2_000))
    case 35: return .receivesCredentials(one, below(2))
    case 36: return .get(one, "credentials") { HistoryCall.text(try $1.peerCredentials()) }
    case 37: return .get(one, "unacknowledged") { "\($1.unacknowledgedBytes())" }
    case 38...43:
      let places = (0..<(1 + below(3))).map { _ in place() }
      return .pass(one, size(Self.large, 50_000), places, to: isOne(of: 2) ? nil : name)
    case 44...49: return .take(one, isOne(of: 2) ? 1 + below(200) : 100_000, descriptors: below(4))
    default: return commonCall(on: one)
    }
  }

  /// Binds as a listener or an endpoint does, which replaces a stale file.
  private mutating func makeFile(_ place: Int, backlog: Int32?, _ folder: String) -> HistoryCall {
    let name = name(pick([.file, .otherFile]), folder)
    return .do(place, "make \(name) \(backlog.map { "\($0)" } ?? "")") {
      guard case .unix(let path)? = try name.find($0, $1) else { return }
      $0.files[place] = try UnixSocketFile.make(for: $1, at: path, permissions: nil, backlog: backlog)
    }
  }

  private func name(_ place: UnixPlace, _ folder: String) -> HistoryAddress {
    let text =
      switch place {
      case .file: "\(folder)/\(seed)file"
      case .otherFile: "\(folder)/\(seed)other"
      case .rareFile: "\(folder)/\(seed)rare"
      // Each history has names of its own, so that others do not matter.
      case .abstract: "@\(folder)/\(seed)"
      case .otherAbstract: "@\(folder)/\(seed)other"
      case .unnamed, .foreign: ""
      }
    return HistoryAddress(description: "\(place)") { _, _ in
      place == .foreign ? .ipv4(.loopback, port: 1) : .unix(UnixPath(text) ?? .unnamed)
    }
  }
}

extension HistoryCall {
  fileprivate static func receivesCredentials(_ place: Int, _ value: Int) -> HistoryCall {
    .do(place, "receives credentials \(value)") {
      // What it does to streams depends on the version of Linux, and the framework has no use for it there.
      if try !$1.isStream() { try $1.set(.receivesCredentials, to: Int32(value)) }
    }
  }

  /// Sends bytes, and the sockets of some places with them: through a stream only the first. Only a datagram goes to an address.
  fileprivate static func pass(_ place: Int, _ count: Int, _ places: [Int], to address: HistoryAddress?) -> HistoryCall
  {
    .get(place, "pass \(places) with \(count) to \(address?.description ?? "the peer")") { sockets, socket in
      let numbers = places.compactMap { sockets[$0]?.number }
      guard let first = numbers.first, let batch = sockets.batch else { return "no sockets" }
      if try socket.isStream() {
        let passed = OwnedDescriptor(owning: first)
        let result = socket.send(pattern(count).span, passing: passed)
        _ = passed.release()
        return result.outcome
      }
      let passed = DescriptorBundle(owning: numbers)
      // The places still own them.
      defer { while let descriptor = passed.takeFirst() { _ = descriptor.release() } }
      batch.clear()
      let target = try address?.find(sockets, socket)
      _ = batch.add(pattern(count).span, to: target, nil, isIPv6: false, passing: passed)
      return "\(try batch.send(on: socket))"
    }
  }

  /// Receives with room for descriptors. Those that come get the first free places, and the others are closed. So afterwards several places
  /// can have one socket.
  fileprivate static func take(_ place: Int, _ count: Int, descriptors limit: Int) -> HistoryCall {
    .get(place, "take \(count) with \(limit)") { sockets, socket in
      if try socket.isStream() {
        let inbox = DescriptorInbox(maximum: limit)
        let result = ScratchMemory(count: count).receive(from: socket, inbox)
        var places: [String] = []
        while let descriptor = inbox.take() { places.append(sockets.keep(descriptor)) }
        return "\(result.outcome), places \(places)"
      }
      guard let batch = sockets.batch else { return "no memory" }
      let received = try batch.receive(from: socket, atMost: 2, size: count, withMetadata: true, descriptors: limit)
      return (0..<received).map { index in
        let (kept, someAreLost) = batch.takeDescriptors(index, atMost: limit)
        var places: [String] = []
        while let descriptor = kept?.takeFirst() { places.append(sockets.keep(descriptor)) }
        return "\(batch.length(index)) bytes, places \(places)\(someAreLost ? ", some are lost" : "")"
      }.joined(separator: "; ")
    }
  }
}
