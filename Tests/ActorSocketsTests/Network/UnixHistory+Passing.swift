import SocketSystem
import TestSupport

@testable import ActorSocketsTesting

/// The calls of a history that pass descriptors: SCM_RIGHTS. The sockets of the history are what is passed, so afterwards several places can
/// have one socket.
extension UnixHistoryRun {
  /// Sends bytes, and the sockets of some places with them: through a stream only the first.
  func pass(_ bytes: [UInt8], to address: SocketAddress?, _ places: [Int], on socket: BorrowedDescriptor) throws
    -> String
  {
    let numbers = places.compactMap { sockets[$0]?.number }
    guard let first = numbers.first else { return "none" }
    if try socket.isStream() {
      let passed = OwnedDescriptor(owning: first)
      let result = socket.send(bytes.span, passing: passed)
      _ = passed.release()
      return result.outcome
    }
    guard let batch else { return "none" }
    let passed = DescriptorBundle(owning: numbers)
    batch.clear()
    _ = batch.add(bytes.span, to: address, nil, isIPv6: false, passing: passed)
    let result = HistorySockets.outcome { "\(try batch.send(on: socket))" }
    // The places still own them.
    while let descriptor = passed.takeFirst() { _ = descriptor.release() }
    return result
  }

  /// Receives with room for descriptors. Those that come get the first free places, and the others are closed.
  func take(_ count: Int, atMost limit: Int, from socket: BorrowedDescriptor) throws -> String {
    if try socket.isStream() {
      let memory = ScratchMemory(count: count)
      let inbox = DescriptorInbox(maximum: limit)
      let result = memory.receive(from: socket, inbox)
      var places: [String] = []
      while let descriptor = inbox.take() { places.append(sockets.keep(descriptor)) }
      return "\(result.outcome), places \(places)"
    }
    guard let batch else { return "none" }
    let received = try batch.receive(from: socket, atMost: 2, size: count, withMetadata: true, descriptors: limit)
    return (0..<received).map { index in
      let (kept, someAreLost) = batch.takeDescriptors(index, atMost: limit)
      var places: [String] = []
      while let descriptor = kept?.takeFirst() { places.append(sockets.keep(descriptor)) }
      return "\(batch.length(index)) bytes, places \(places)\(someAreLost ? ", some are lost" : "")"
    }.joined(separator: "; ")
  }
}

extension HistorySockets {
  /// Puts a descriptor into the first free place, or closes it.
  func keep(_ descriptor: consuming OwnedDescriptor) -> String {
    guard let place = (0..<Self.count).first(where: { self[$0] == nil }) else { return "closed" }
    let number = descriptor.release()
    return (try? make(in: place) { OwnedDescriptor(owning: number) }).map { _ in "\(place)" } ?? "?"
  }
}
