internal import SocketSystem

/// The bytes of a datagram that is sent at once: in one piece, or in several that the kernel gathers.
enum DatagramContent: Sendable {
  case one([UInt8])
  /// At most `BorrowedDescriptor.maximumPieces`.
  case several([[UInt8]])

  init(_ pieces: [[UInt8]]) {
    self =
      switch pieces.count {
      case 2...BorrowedDescriptor.maximumPieces: .several(pieces)
      default: .one(Array(pieces.joined()))
      }
  }

  @inline(__always)
  var count: Int {
    switch self {
    case .one(let bytes): bytes.count
    case .several(let pieces): pieces.reduce(0) { $0 + $1.count }
    }
  }

  var joined: [UInt8] {
    switch self {
    case .one(let bytes): bytes
    case .several(let pieces): Array(pieces.joined())
    }
  }

  @inline(__always)
  func send(on socket: BorrowedDescriptor, to address: SocketAddress?) -> Transfer {
    switch self {
    case .one(let bytes): socket.send(bytes.span, to: address)
    case .several(let pieces): socket.send(gathering: pieces, to: address)
    }
  }
}
