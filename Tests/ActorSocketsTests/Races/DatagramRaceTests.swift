import ActorSockets
import EpollReactor
import SocketSystem
import TestSupport
import Testing

@Suite(.serialized) struct DatagramRaceTests {
  private struct Answering: Resolver {
    @concurrent func addresses(of name: String, family: AddressFamily) async throws -> [SocketAddress] {
      [.ipv4(.loopback, port: 0)]
    }
  }

  @Test(arguments: 0..<4 as Range<UInt64>)
  func `Whatever is cancelled and timed out, every datagram is received once, in order`(seed: UInt64) async throws {
    try await within("all arrive", seconds: secondsForRounds) {
      var random = SeededRandom(seed: seed)
      let reactor = Reactor()
      let server = try UDPEndpoint.bind(to: .unix(path: ""), reactor: reactor)
      let client = try UDPEndpoint.bind(to: .unix(path: ""), reactor: seed % 2 == 0 ? reactor : Reactor())
      let address = server.localAddresses[0]
      let total = max(2000, rounds / 4)
      let sending = Task {
        var random = SeededRandom(seed: seed &+ 100)
        var next = 0
        while next < total {
          func bytes(_ number: Int) -> [UInt8] { [UInt8(number & 255), UInt8(number >> 8 & 255), UInt8(number >> 16)] }
          switch Int.random(in: 0..<6, using: &random) {
          case 0:
            let count = min(total - next, Int.random(in: 1...40, using: &random))
            try await client.send((next..<next + count).map { Datagram(bytes($0), to: address) })
            next += count
          case 1:
            // Cancelled: sent or not, and it says which.
            let number = next
            let task = Task.immediate { try await client.send(bytes(number), to: address) }
            if Bool.random(using: &random) { await Task.yield() }
            task.cancel()
            do {
              try await task.value
              next += 1
            } catch is CancellationError {}
          case 2:
            do {
              try await client.send(
                bytes(next), to: address, timeout: Bool.random(using: &random) ? .zero : .after(.microseconds(50)))
              next += 1
            } catch let error as SocketError where error.code == .timedOut {}
          case 3:
            let handle = client.enqueueSend(Datagram(bytes(next), to: address))
            if Bool.random(using: &random) { handle.cancel() }
            do {
              try await handle.value
              next += 1
            } catch is CancellationError {}
          case 4:
            let handle = client.enqueueSend(Datagram(bytes(next), to: address))
            if next + 1 < total {
              try await client.send(bytes(next + 1), to: address)
              next += 1
            }
            try await handle.value
            next += 1
          default:
            try await client.send(bytes(next), to: address)
            next += 1
          }
        }
      }
      var seen: [Int] = []
      func number(_ bytes: [UInt8]) -> Int { Int(bytes[0]) | Int(bytes[1]) << 8 | Int(bytes[2]) << 16 }
      while seen.count < total {
        let timeout: Timeout? = [nil, .zero, .after(.microseconds(30)), .within(.microseconds(80))][
          Int.random(in: 0..<4, using: &random)]
        let doesCancel = Bool.random(using: &random)
        let kind = Int.random(in: 0..<4, using: &random)
        let limit = Int.random(in: 1...40, using: &random)
        let task = Task.immediate { () -> [Int] in
          switch kind {
          case 0: return [number(try await server.receive(timeout: timeout).bytes)]
          case 1: return try await server.receive(upTo: limit, timeout: timeout).map { number($0.bytes) }
          default:
            let notes = Notes<Int>()
            struct Enough: Error {}
            do {
              try await server.withDatagrams(upTo: limit, timeout: timeout) { bytes, _ in
                notes.add(Int(bytes[0]) | Int(bytes[1]) << 8 | Int(bytes[2]) << 16)
                if kind == 3, notes.all.count == 3 { throw Enough() }
              }
            } catch is Enough {}
            return notes.all
          }
        }
        if doesCancel {
          if Bool.random(using: &random) { spin(for: Int64.random(in: 0..<60_000, using: &random)) }
          task.cancel()
        }
        do { seen += try await task.value } catch is CancellationError {} catch let error as SocketError
          where error.code == .timedOut
        {}
        let ahead = await server.metrics.fetchedAhead
        #expect(ahead <= 32)
      }
      #expect(seen == Array(0..<total))
      try await sending.value
    }
  }

  @Test(arguments: 0..<4 as Range<UInt64>)
  func `Everything at once ends, whatever it is`(seed: UInt64) async throws {
    var random = SeededRandom(seed: seed)
    let reactor = Reactor()
    for round in 0..<max(100, rounds / 4) {
      try await within("round \(round) of seed \(seed) ends", seconds: 20) {
        var configuration = UDPEndpoint.Configuration()
        configuration.resolver = Answering()
        if round % 5 == 0 { configuration.receiveFilter = { $0.bytes.count % 2 == 0 ? .drop : .pass } }
        if round % 3 == 0 { configuration.metadata = [.localAddress, .timestamp] }
        let kind = round % 4
        func bind() throws -> UDPEndpoint {
          let endpoint: Endpoint =
            switch kind {
            case 0: .unix(path: "")
            case 1: .host("localhost", port: 0)
            case 2: .port(0)
            default: .address(.ipv4(.loopback, port: 0))
            }
          return try UDPEndpoint.bind(to: endpoint, configuration: configuration, reactor: reactor)
        }
        let (one, two) = (try bind(), try bind())
        func target(_ endpoint: UDPEndpoint) -> SocketAddress {
          let address = endpoint.localAddresses[0]
          return kind == 2 ? .ipv4(.loopback, port: address.port ?? 0) : address
        }
        let dead: SocketAddress = kind == 0 ? .unix(try UnixPath(parsing: "@nobody")) : .ipv4(.loopback, port: 9)
        let (a, b) = (target(one), target(two))
        var tasks: [Task<Void, Never>] = []
        for number in 0..<Int.random(in: 2...12, using: &random) {
          let (endpoint, other) = Bool.random(using: &random) ? (one, b) : (two, a)
          let timeout: Timeout? = [
            nil, nil, .zero, .after(.microseconds(100)), .within(.microseconds(200)),
            .after(.microseconds(50)) { elapsed, _ in elapsed < .microseconds(200) ? .microseconds(50) : nil },
          ][Int.random(in: 0..<6, using: &random)]
          let bytes = [UInt8](repeating: 1, count: number % 3)
          let what = Int.random(in: 0..<14, using: &random)
          let preference: (any TaskExecutor)? = [reactor, nil, WorkerPool.shared][Int.random(in: 0..<3, using: &random)]
          let isLong = Bool.random(using: &random)
          let task = Task(executorPreference: preference) {
            for _ in 0..<(isLong ? 5 : 1) {
              do {
                switch what {
                case 0: try await endpoint.send(bytes, to: other, timeout: timeout)
                case 1: try await endpoint.send((0..<70).map { _ in Datagram(bytes, to: other) }, timeout: timeout)
                case 2: endpoint.enqueueSend(Datagram(bytes, to: other), timeout: timeout)
                case 3: endpoint.enqueueSend(Datagram(bytes, to: other), timeout: timeout).cancel()
                case 4: _ = try await endpoint.receive(timeout: timeout)
                case 5: _ = try await endpoint.receive(upTo: 5, timeout: timeout)
                case 6: try await endpoint.withDatagrams(upTo: 1, timeout: timeout) { _, _ in }
                case 7: try await endpoint.withDatagrams(timeout: timeout) { _, _ in throw CancellationError() }
                case 8: for try await _ in endpoint.datagrams {}
                case 9: for await _ in endpoint.errors {}
                case 10: try await endpoint.connect(to: .address(isLong ? dead : other))
                case 11: try await endpoint.send(bytes, to: dead, timeout: timeout)
                case 12: try await endpoint.send(bytes, to: .host("x.example", port: 9), timeout: timeout)
                default: await endpoint.closeAfterPendingSends(within: .microseconds(500))
                }
              } catch {}
            }
          }
          tasks.append(task)
          if Int.random(in: 0..<4, using: &random) == 0 { spin(for: Int64.random(in: 0..<30_000, using: &random)) }
        }
        for task in tasks where Int.random(in: 0..<4, using: &random) == 0 {
          if Bool.random(using: &random) { await Task.yield() }
          task.cancel()
        }
        if Bool.random(using: &random) { spin(for: Int64.random(in: 0..<500_000, using: &random)) }
        if round % 7 == 0 { await one.closeAfterPendingSends(within: .milliseconds(1)) } else { await one.close() }
        await two.close()
        for task in tasks { await task.value }
        let metrics = await one.metrics
        #expect(metrics.pendingSends == 0 && metrics.pendingReceives == 0)
      }
    }
    try await reactor.sleeps()
  }

  /// The number of a closed descriptor is used again at once. Each datagram says from which port it should come.
  @Test func `Other threads send on the socket of an endpoint until it is closed, and not on the next one`()
    async throws
  {
    try await within("all rounds end", seconds: secondsForRounds) {
      let loopback = Endpoint.address(.ipv4(.loopback, port: 0))
      let server = try UDPEndpoint.bind(to: loopback)
      let address = server.localAddresses[0]
      let receiving = Task {
        var (count, strays) = (0, 0)
        for try await datagram in server.datagrams {
          let port = UInt16(datagram.bytes[0]) << 8 | UInt16(datagram.bytes[1])
          count += 1
          if datagram.remoteAddress?.port != port { strays += 1 }
        }
        return (count, strays)
      }
      let reactor = Reactor()
      for round in 0..<max(300, rounds / 4) {
        let endpoint = try UDPEndpoint.bind(to: loopback, reactor: reactor)
        let port = try #require(endpoint.localAddresses[0].port)
        let bytes = [UInt8(port >> 8), UInt8(port & 255)]
        let senders = (0..<2).map { _ in
          Task { while true { try await endpoint.send(bytes, to: address) } }
        }
        try await endpoint.send(bytes, to: address)
        spin(for: Int64(round % 50) * 2_000)
        await endpoint.close()
        let next = try UDPEndpoint.bind(to: loopback, reactor: reactor)
        for sender in senders { await expectError(.closed) { try await sender.value } }
        await next.close()
      }
      await server.close()
      let (count, strays) = try await receiving.value
      #expect(count > 0 && strays == 0)
    }
  }
}
