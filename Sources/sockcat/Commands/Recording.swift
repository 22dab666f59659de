import ActorSockets

/// If recording failed, the reason is printed when the command has ended. The command does not fail, because its bytes have moved.
func recording(in path: String?, _ body: (PacketCapture?) async throws -> Void) async throws {
  guard let path else { return try await body(nil) }
  let capture = try PacketCapture(path: path, replacing: true)
  do {
    try await body(capture)
  } catch {
    await complete(capture)
    throw error
  }
  await complete(capture)
}

private func complete(_ capture: PacketCapture) async {
  do {
    try await capture.finish()
  } catch {
    return StandardError.write(line: "sockcat: \(error)")
  }
  if capture.droppedPackets == 0 { return }
  let reason = capture.hasReachedMaximumSize ? "the file has reached its largest size" : "the disk was too slow"
  StandardError.write(line: "sockcat: \(capture.droppedPackets) packets were not recorded, because \(reason)")
}
