import ActorSockets

/// A game over UDP: players move on a field, and each gets the positions of all at a fixed rate.
///
/// ```
/// player   J COOKIE   joins; the cookie is that of the answer to an earlier J, at first zeros
/// server   C COOKIE   says the cookie, which only the owner of the address can read
/// player   M DX DY    moves, a byte each; also keeps the player in the game
/// server   S TICK (4 bytes) COUNT, and for each player: ID (4 bytes) X (2) Y (2)
/// server   B          the game ends
/// ```
package actor GameServer {
  package struct Settings: Sendable {
    package var interval: Duration = .milliseconds(50)
    package var playerTimeout: Duration = .seconds(10)
    /// At most 255.
    package var mostPlayers = 64
    package var signals: Set<ProcessSignal> = [.terminate, .interrupt]
    package init() {}
  }

  private struct Player {
    let id: UInt32
    var x: Int16 = 0
    var y: Int16 = 0
    var lastHeard: ContinuousClock.Instant
  }

  private let settings: Settings
  private var players: [SocketAddress: Player] = [:]
  private var tick: UInt32 = 0
  private var lastID: UInt32 = 0
  private var isStopping = false

  package init(_ settings: Settings = .init()) { self.settings = settings }

  package func stop() { isStopping = true }

  /// Plays until a signal or ``stop()``, and then says goodbye to the players.
  package func run(_ endpoint: UDPEndpoint) async throws {
    async let _ = stopOnSignal()
    var next = ContinuousClock.now
    while !isStopping {
      next = max(next + settings.interval, .now)
      while let datagram = try await endpoint.receive(until: next) { receive(datagram, on: endpoint) }
      players = players.filter { $0.value.lastHeard + settings.playerTimeout > .now }
      tick &+= 1
      tellAll(state(), on: endpoint)
    }
    tellAll([UInt8(ascii: "B")], on: endpoint)
    await endpoint.closeAfterPendingSends(within: .seconds(1))
  }

  private func stopOnSignal() async throws {
    for await _ in try ProcessSignals(settings.signals) { return stop() }
  }

  private func receive(_ datagram: Datagram, on endpoint: UDPEndpoint) {
    guard let address = datagram.remoteAddress, let kind = datagram.bytes.first else { return }
    let bytes = datagram.bytes.dropFirst()
    switch (kind, bytes.count) {
    case (UInt8(ascii: "J"), 8):
      // The answer is not longer than the question, so it is of no use to attack the owner of a forged address.
      guard bytes.elementsEqual(cookie(address)) else {
        endpoint.enqueueSend(datagram.reply([UInt8(ascii: "C")] + cookie(address)))
        return
      }
      if players[address] == nil, players.count < min(settings.mostPlayers, 255) {
        lastID &+= 1
        players[address] = Player(id: lastID, lastHeard: .now)
      }
    case (UInt8(ascii: "M"), 2):
      players[address]?.lastHeard = .now
      players[address]?.x &+= Int16(Int8(bitPattern: bytes[1]))
      players[address]?.y &+= Int16(Int8(bitPattern: bytes[2]))
    default: break
    }
  }

  /// Hashes differ from process to process, so no one else knows them.
  private func cookie(_ address: SocketAddress) -> [UInt8] {
    var hasher = Hasher()
    hasher.combine(address)
    return Self.bytes(hasher.finalize())
  }

  private func state() -> [UInt8] {
    let positions = players.values.map { Self.bytes($0.id) + Self.bytes($0.x) + Self.bytes($0.y) }
    return [UInt8(ascii: "S")] + Self.bytes(tick) + [UInt8(positions.count)] + positions.joined()
  }

  /// If there is no room, a state is dropped: the next one is newer.
  private func tellAll(_ bytes: [UInt8], on endpoint: UDPEndpoint) {
    for address in players.keys { endpoint.enqueueSend(Datagram(bytes, to: address), timeout: .seconds(1)) }
  }

  private static func bytes(_ number: some FixedWidthInteger) -> [UInt8] {
    stride(from: number.bitWidth - 8, through: 0, by: -8).map { UInt8(truncatingIfNeeded: number >> $0) }
  }
}
