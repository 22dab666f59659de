internal import SocketSystem

extension SendQueue {
  enum Content {
    case datagrams([Datagram])
    case lookingUp(Datagram)
    case lookingUpPeer
    /// Connect to another peer, at one of these addresses.
    case peer([SocketAddress])
    case failed(SocketError)

    var bytes: Int {
      switch self {
      case .datagrams(let datagrams): datagrams.reduce(0) { $0 + $1.bytes.count }
      case .lookingUp(let datagram): datagram.bytes.count
      case .lookingUpPeer, .peer, .failed: 0
      }
    }
  }

  enum Step {
    case idle
    /// Send the datagrams that `unsent` returns, then call `sent`, `failed`, `dropped` or `full`.
    case send
    /// Connect to one of these addresses, then call `connected`.
    case connect([SocketAddress])
    case finish(Tag, Result<Void, any Error>)
    /// Call `park`: the next datagram goes to a destination that has a line.
    case park
  }

  enum Sender {
    case call(id: UInt64, Tag)
    /// No call: it is a reply that is sent until this time.
    case reply(expiry: Int64)
  }

  struct Entry: Identified {
    let id: UInt64
    let tag: Tag
    var content: Content
    /// Its failures are reported as those of a batch, even if it has only one datagram.
    let isBatch: Bool
    /// When it is too late to send its replies; 0 if they must not wait.
    let expiry: Int64
    /// The number of datagrams that were sent, have failed, were dropped, or wait in lines.
    var passed = 0
    /// The datagrams that were put into lines, in order. They may have left since.
    var parked: [(destination: SocketAddress?, id: UInt64)] = []
    /// The number of datagrams that wait in lines.
    var waiting = 0
    /// Whether datagrams were sent, have failed or were dropped.
    var isUnderWay = false
    var sentBytes = 0
    var failures: [DatagramBatchError.Failure] = []

    init(id: UInt64, tag: Tag, content: Content, isBatch: Bool, expiry: Int64) {
      self.id = id
      self.tag = tag
      self.content = content
      self.isBatch = isBatch
      self.expiry = expiry
    }

    var unpassedBytes: Int {
      guard case .datagrams(let datagrams) = content else { return content.bytes }
      return datagrams[passed...].reduce(0) { $0 + $1.bytes.count }
    }

    /// `limit` datagrams of this entry and of later ones were sent. Returns how many of them belong to this entry, and their bytes.
    mutating func sent(atMost limit: Int) -> (count: Int, bytes: Int) {
      guard case .datagrams(let datagrams) = content else { return (0, 0) }
      let these = datagrams[passed...].prefix(limit)
      let bytes = these.reduce(0) { $0 + $1.bytes.count }
      passed += these.count
      sentBytes += bytes
      isUnderWay = isUnderWay || !these.isEmpty
      return (these.count, bytes)
    }

    /// Valid once all datagrams are done.
    var outcome: Result<Void, any Error> {
      guard let first = failures.first else { return .success(()) }
      if !isBatch { return .failure(first.error) }
      // Those that waited in lines have failed in another order.
      let failures = failures.sorted { $0.index < $1.index }
      return .failure(DatagramBatchError(sent: passed - failures.count, failures: failures))
    }
  }
}
