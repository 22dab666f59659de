import ActorSockets
import Testing

/// A way to reply to each datagram.
enum ReplyLoop: String, CaseIterable, CustomTestStringConvertible {
  case single, batch, unchanged, enqueued, inPlace

  var testDescription: String { rawValue }

  func echo(on endpoint: UDPEndpoint) async throws {
    switch self {
    case .single:
      for try await datagram in endpoint.datagrams { try await endpoint.send(datagram.reply(datagram.bytes)) }
    case .batch:
      while true { try await endpoint.send(endpoint.receive(upTo: 32).map { $0.reply($0.bytes) }) }
    case .unchanged:
      while true { try await endpoint.send(endpoint.receive(upTo: 32)) }
    case .enqueued:
      for try await datagram in endpoint.datagrams {
        try await endpoint.enqueueSend(datagram.reply(datagram.bytes)).value
      }
    case .inPlace:
      while true {
        try await endpoint.withDatagrams { endpoint, bytes, header in
          try endpoint.sendNow(bytes, inReplyTo: header)
        }
      }
    }
  }
}
