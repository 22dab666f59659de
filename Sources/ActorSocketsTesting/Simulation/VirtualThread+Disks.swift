internal import EpollReactor

extension VirtualThread {
  /// `body` must use no host of this thread, because the disk is not in its place meanwhile.
  func withDisk<Result, Failure: Error>(
    of host: Int, _ body: (inout HostDisk) throws(Failure) -> Result
  ) throws(Failure) -> Result {
    var disk = hosts[host].disk.take() ?? HostDisk(streams.disk(of: host))
    defer { hosts[host].disk = disk }
    return try body(&disk)
  }

  /// What a disk does, with the bytes that it moves. A fault is also a line of the story.
  func noteDisk(_ text: String, _ bytes: [UInt8] = [], isFault: Bool = false, on host: Int) {
    var hash = TraceHash()
    hash.mix(bytes.span)
    record(.disk(text, hash: hash.value), on: host)
    if isFault { happened(.change(text), on: host) }
  }

  /// What a crash does to the disk, and to what the test keeps by itself.
  func crashStorage(of host: Int, _ kind: SimulatedHost.Crash) {
    // A disk that was never used loses nothing.
    if hosts[host].disk != nil {
      let lines = withDisk(of: host) { disk -> [String] in
        if kind == .power { return disk.losePower() }
        disk.state.closeAll()
        return []
      }
      for line in lines { noteDisk(line, isFault: true, on: host) }
    }
    for hook in hosts[host].crashHooks { hook(kind) }
  }
}
