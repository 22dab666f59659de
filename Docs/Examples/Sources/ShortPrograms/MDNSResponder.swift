import ActorSockets

/// Answers questions for the addresses of `NAME.local` on all networks of this machine: RFC 6762. It does not look for another host that has
/// this name.
package actor MDNSResponder {
  private struct Membership: Hashable {
    let interface: UInt32
    let group: IPAddress
  }

  private static let groups = ["224.0.0.251", "ff02::fb"].compactMap { IPAddress($0) }

  private let name: [[UInt8]]
  private let signals: Set<ProcessSignal>
  private var interfaces: [UInt32: NetworkInterface] = [:]
  private var memberships: [Membership: UDPEndpoint.Membership] = [:]
  private var lastAnswers: [UInt32: ContinuousClock.Instant] = [:]

  /// Creates a responder for a label of 1 to 63 bytes.
  package init(_ label: String, signals: Set<ProcessSignal> = [.terminate, .interrupt]) {
    name = [Array(label.utf8.prefix(63)), Array("local".utf8)]
    self.signals = signals
  }

  /// Other programs of this machine use the port, too.
  package static func bind(port: UInt16 = 5353) throws -> UDPEndpoint {
    try UDPEndpoint.bind(
      to: .port(port),
      configuration: .with {
        $0.reuseAddress = true
        $0.metadata = .localAddress
      })
  }

  /// Answers until a signal, and then says goodbye.
  package func run(_ endpoint: UDPEndpoint) async throws {
    try await endpoint.set(.multicastTimeToLive, to: 255)
    try await withThrowingTaskGroup { group in
      group.addTask { try await self.followInterfaces(endpoint) }
      group.addTask { try await self.answer(endpoint) }
      group.addTask { [signals] in for await _ in try ProcessSignals(signals) { return } }
      let end = await group.nextResult()
      group.cancelAll()
      for index in interfaces.keys { send(lifetime: 0, on: index, endpoint) }
      await endpoint.closeAfterPendingSends(within: .seconds(1))
      try end?.get()
    }
  }

  private func followInterfaces(_ endpoint: UDPEndpoint) async throws {
    for try await all in NetworkInterface.changes(reactor: endpoint.executor.reactor) {
      let usable = all.filter { $0.isUp && $0.supportsMulticast && !$0.isLoopback }
      let old = interfaces
      interfaces = Dictionary(uniqueKeysWithValues: usable.map { ($0.index, $0) })
      for (key, membership) in memberships where interfaces[key.interface] == nil {
        try await membership.leave()
        memberships[key] = nil
        lastAnswers[key.interface] = nil
      }
      for interface in usable where old[interface.index]?.addresses != interface.addresses {
        for group in Self.groups where interface.addresses.contains(where: { $0.address.isIPv4 == group.isIPv4 }) {
          let key = Membership(interface: interface.index, group: group)
          if memberships[key] != nil { continue }
          // If the interface is gone again, the next list says so.
          memberships[key] = try? await endpoint.join(group, on: .index(interface.index))
        }
        send(lifetime: 120, on: interface.index, endpoint)
      }
    }
  }

  private func answer(_ endpoint: UDPEndpoint) async throws {
    for try await datagram in endpoint.datagrams {
      let index = datagram.interfaceIndex
      guard let interface = interfaces[index], let sender = datagram.remoteAddress, let address = sender.ipAddress,
        // Only hosts of this network get an answer.
        interface.addresses.contains(where: { $0.network.contains(address) }),
        MDNSQuery.asks(datagram.bytes, for: name)
      else { continue }
      if sender.port != endpoint.port {
        // The client is a simple one, which expects the answer of a name server: section 6.7.
        let id = Array(datagram.bytes.prefix(2))
        endpoint.enqueueSend(datagram.reply(MDNSQuery.answer(id, name, interface, lifetime: 10, repeatsQuestion: true)))
      } else if lastAnswers[index].map({ $0 + .seconds(1) < .now }) ?? true {
        lastAnswers[index] = .now
        send(lifetime: 120, on: index, endpoint)
      }
    }
  }

  /// Sends the addresses to all hosts of a network. If a datagram cannot be sent, they will ask again.
  private func send(lifetime: UInt8, on index: UInt32, _ endpoint: UDPEndpoint) {
    guard let interface = interfaces[index], let port = endpoint.port else { return }
    let bytes = MDNSQuery.answer([0, 0], name, interface, lifetime: lifetime, repeatsQuestion: false)
    for key in memberships.keys where key.interface == index {
      var datagram = Datagram(bytes, to: key.group.socketAddress(port: port))
      datagram.interfaceIndex = index
      endpoint.enqueueSend(datagram)
    }
  }
}

/// The little of DNS that a responder for one name needs: RFC 1035.
private enum MDNSQuery {
  private static let (typeA, typeAAAA) = ([UInt8(0), 1], [UInt8(0), 28])

  /// Whether a message is a question for the addresses of a name.
  static func asks(_ message: [UInt8], for name: [[UInt8]]) -> Bool {
    guard message.count > 12, message[2] & 0x80 == 0, message[4] == 0 else { return false }
    var offset = 12
    for _ in 0..<min(message[5], 32) {
      guard let labels = labels(message, &offset), offset + 4 <= message.count else { return false }
      let type = message[offset..<offset + 2]
      offset += 4
      let isAddress = [typeA, typeAAAA, [0, 255]].contains { $0.elementsEqual(type) }
      if isAddress, labels == name.map({ $0.map(lowercased) }) { return true }
    }
    return false
  }

  static func answer(
    _ id: [UInt8], _ name: [[UInt8]], _ interface: NetworkInterface, lifetime: UInt8, repeatsQuestion: Bool
  ) -> [UInt8] {
    let encoded: [UInt8] = name.flatMap { [UInt8($0.count)] + $0 } + [0]
    let addresses = interface.addresses.map(\.address).prefix(16)
    let question = repeatsQuestion ? encoded + [0, 255, 0, 1] : []
    let header = id + [0x84, 0, 0, repeatsQuestion ? 1 : 0, 0, UInt8(addresses.count), 0, 0, 0, 0]
    let records = addresses.map { address -> [UInt8] in
      // The highest bit of the class says that older records are void. Simple clients do not know it.
      let (type, data): ([UInt8], [UInt8]) =
        switch address {
        case .ipv4(let address): (typeA, (0..<4).map { UInt8(truncatingIfNeeded: address.rawValue >> (24 - 8 * $0)) })
        case .ipv6(let address): (typeAAAA, address.bytes)
        }
      return encoded + type + [repeatsQuestion ? 0 : 0x80, 1, 0, 0, 0, lifetime, 0, UInt8(data.count)] + data
    }
    return header + question + records.joined()
  }

  /// Reads a name, which may continue at an earlier place. Each such place is before the last one, so the loop ends.
  private static func labels(_ message: [UInt8], _ offset: inout Int) -> [[UInt8]]? {
    var (labels, place, limit, end): ([[UInt8]], Int, Int, Int?) = ([], offset, offset, nil)
    while place < message.count, labels.count < 128 {
      let count = Int(message[place])
      if count >= 0xC0, place + 1 < message.count {
        end = end ?? place + 2
        place = (count & 0x3F) << 8 | Int(message[place + 1])
        guard place < limit else { return nil }
        limit = place
      } else if count == 0 {
        offset = end ?? place + 1
        return labels
      } else {
        guard count < 64, place + 1 + count <= message.count else { return nil }
        labels.append(message[place + 1..<place + 1 + count].map(lowercased))
        place += 1 + count
      }
    }
    return nil
  }

  private static func lowercased(_ byte: UInt8) -> UInt8 { 65...90 ~= byte ? byte | 32 : byte }
}
