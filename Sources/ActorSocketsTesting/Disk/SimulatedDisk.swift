public import ActorSockets
public import SocketSystem

/// The disk of a ``SimulatedHost``: what a program on the host gets as its `Disk`.
///
/// ```swift
/// let server = simulation.host("server")
/// server.start { try await runServer(on: server.disk) }
/// …
/// server.crash()    // the power fails: un-synced writes may be lost, in part or as a whole
/// server.restart()  // the program runs again, on what is left
/// ```
///
/// The disk keeps everything that was synchronized, and is there again when the host restarts. After a power failure, the seed decides for
/// each other change whether it survived:
///
/// - Each write of a file has a fate of its own. It is there, or lost, or torn: some of its sectors of 512 bytes are there. If the file has
///   become longer nevertheless, zeros are in the place of lost bytes.
/// - A name that was created, renamed or removed is so, or as before, whatever happened to the contents of the file. Changes of one name,
///   and those that depend on each other, are lost from the last one on.
///
/// If only the program crashes, nothing is lost. ``properties`` say how long calls take in virtual time and how often they fail. The trace
/// has a line for each call, and for what a power failure has taken. Failures of the disk are also in the story of a run that fails.
///
/// Not everything waits for a sync: as a kernel does, the disk keeps the oldest changes by itself if a file has more than 4,096 of them, or
/// more than 16 MiB in several writes, and if there are more than 1,024 changes of names.
///
/// A file that was opened before a crash fails with `.closed` afterwards. A test can look at the disk of a host that is down.
///
/// Use disks within the simulated program only; elsewhere their methods stop the program.
public struct SimulatedDisk: Disk, Hashable {
  let host: Int

  /// The kinds of calls that can fail.
  public enum Call: Hashable, Sendable {
    /// Reading a part of a file.
    case read
    /// Writing, creating, renaming, removing, truncating.
    case write
    /// Synchronizing a file or a directory.
    case synchronize
  }

  private var thread: VirtualThread { .required }

  // MARK: Faults

  /// How the disk works, and how often it fails.
  public var properties: DiskProperties {
    get { thread.withDisk(of: host) { $0.properties } }
    nonmutating set {
      let thread = thread
      thread.withDisk(of: host) { $0.properties = newValue }
      thread.note("the disk of \(thread.hosts[host].name) has \(newValue.text)")
    }
  }

  /// Lets a call fail with `.diskFailed`.
  ///
  /// If several of these faults are for one call, the call uses up one of them. The others are for the calls after it.
  ///
  /// - Parameters:
  ///   - call: The kind of call.
  ///   - count: How many such calls are made before the one that fails, at least 0.
  public func failNext(_ call: Call, after count: Int = 0) {
    let thread = thread
    thread.withDisk(of: host) { $0.failNext(call, after: count) }
    thread.note("on the disk of \(thread.hosts[host].name), a \(call) fails after \(count) others")
  }

  /// Lets a sector of a file be lost: reads of it fail with `.diskFailed` until it is written again.
  ///
  /// - Parameters:
  ///   - path: The path of the file.
  ///   - offset: The offset of a byte in the sector, at least 0.
  /// - Throws: `SocketError`: `.pathNotFound`.
  public func damage(_ path: String, at offset: Int) throws {
    try change(path) { $0.damage(at: max(0, offset)) }
    thread.noteDisk("the sector at \(offset) of \(AddressError.quote(path)) is damaged", isFault: true, on: host)
  }

  /// Flips a bit of a file, without any error.
  ///
  /// - Parameters:
  ///   - path: The path of the file.
  ///   - offset: The offset of the byte, at least 0. Beyond the end of the file, nothing happens.
  ///   - bit: The bit, 0 to 7.
  /// - Throws: `SocketError`: `.pathNotFound`.
  public func flipBit(of path: String, at offset: Int, bit: Int = 0) throws {
    try change(path) { $0.flip(bit: bit, at: max(0, offset)) }
    thread.noteDisk("bit \(bit) at \(offset) of \(AddressError.quote(path)) is flipped", isFault: true, on: host)
  }

  private func change(_ path: String, _ body: (inout StoredFile) -> Void) throws(SocketError) {
    let name = try DiskPath(path, operation: "open")
    try call("open \(AddressError.quote(path))") { disk throws(SystemError) in
      disk.state.change(try disk.state.open(name, .never).node, body)
    }
  }

  // MARK: Calls of the program

  /// Opens a file for reading and writing.
  @concurrent
  public func open(_ path: String, creation: FileCreation) async throws -> any DiskFile {
    let operation = "open \(AddressError.quote(path))"
    let name = try DiskPath(path, operation: operation)
    let (node, mark) = try await changing(operation, "open") { state throws(SystemError) in
      try state.open(name, creation)
    }
    let life = thread.hosts[host].life
    return SimulatedFile(disk: self, life: life, node: node, mark: mark, name: AddressError.quote(path))
  }

  /// Gives a file or a directory another path.
  @concurrent
  public func rename(_ path: String, to newPath: String) async throws {
    let operation = "rename \(AddressError.quote(path))"
    let (name, newName) = try (DiskPath(path, operation: operation), DiskPath(newPath, operation: operation))
    try await changing(operation, "rename", " to \(AddressError.quote(newPath))") { state throws(SystemError) in
      try state.rename(name, to: newName)
    }
  }

  /// Removes a file or an empty directory.
  @concurrent
  public func remove(_ path: String) async throws {
    let operation = "remove \(AddressError.quote(path))"
    let name = try DiskPath(path, operation: operation)
    try await changing(operation, "unlink") { state throws(SystemError) in try state.remove(name) }
  }

  /// Creates a directory.
  @concurrent
  public func createDirectory(_ path: String) async throws {
    let operation = "createDirectory \(AddressError.quote(path))"
    let name = try DiskPath(path, operation: operation)
    try await changing(operation, "mkdir") { state throws(SystemError) in try state.createDirectory(name) }
  }

  /// Returns the names in a directory, in the order of their bytes.
  @concurrent
  public func list(_ path: String) async throws -> [String] {
    let operation = "list \(AddressError.quote(path))"
    let name = try DiskPath(path, operation: operation, mayBeEmpty: true)
    await wait(.read)
    let names = try noting(operation) { disk throws(SystemError) in try disk.state.list(name) }
    thread.noteDisk(operation, on: host)
    return names.map { String(decoding: $0, as: UTF8.self) }
  }

  /// Waits until the names in a directory are on the disk.
  @concurrent
  public func synchronizeDirectory(_ path: String) async throws {
    let operation = "synchronizeDirectory \(AddressError.quote(path))"
    let name = try DiskPath(path, operation: operation, mayBeEmpty: true)
    let (node, end) = try noting(operation) { disk throws(SystemError) in
      (try disk.state.directory(at: name.names[...], "open"), disk.state.names.next)
    }
    let life = thread.hosts[host].life
    await wait(.synchronize)
    try check(life, operation)
    let count = try noting(operation) { disk throws(SystemError) in
      try disk.synchronizeDirectory(node, before: end)
    }
    thread.noteDisk("\(operation): \(count) changes", on: host)
  }

  // MARK: Parts of calls

  private func changing<Result: Sendable>(
    _ operation: String, _ systemCall: String, _ more: String = "",
    _ body: (inout DiskState) throws(SystemError) -> Result
  ) async throws -> Result {
    let life = thread.hosts[host].life
    let result = Swift.Result { () throws(SocketError) in
      try noting(operation, as: operation + more) { disk throws(SystemError) in try disk.change(systemCall, body) }
    }
    if !result.isFailure { thread.noteDisk(operation + more, on: host) }
    await wait(.write)
    try check(life, operation)
    return try result.get()
  }

  func call<Result>(
    _ operation: String, _ body: (inout HostDisk) throws(SystemError) -> Result
  ) throws(SocketError) -> Result {
    do throws(SystemError) {
      return try thread.withDisk(of: host, body)
    } catch {
      throw SocketError(error, operation: operation)
    }
  }

  /// As `call`, and notes it if the call fails.
  func noting<Result>(
    _ operation: String, as text: String? = nil, _ body: (inout HostDisk) throws(SystemError) -> Result
  ) throws(SocketError) -> Result {
    do throws(SocketError) {
      return try call(operation, body)
    } catch {
      thread.noteDisk("\(text ?? operation) fails", isFault: error.isFaultOfDisk, on: host)
      throw error
    }
  }

  /// Throws if the host has crashed since its life `life`.
  func check(_ life: Int, _ operation: String) throws(SocketError) {
    if thread.hosts[host].life != life {
      throw SocketError(.closed, operation: operation, detail: "the host has crashed since")
    }
  }

  /// Waits as long as a call takes. Neither a cancellation nor a clock of the host changes that.
  func wait(_ call: Call) async {
    let thread = thread
    let time = thread.withDisk(of: host) { $0.latency(call) }
    if time == 0 { return }
    let end = SimulationClock.Instant(elapsed: .nanoseconds(instant(thread.elapsed, plus: time)))
    // The task is not cancelled with the caller.
    await Task { try? await SimulationClock(thread: thread).sleep(until: end) }.value
  }
}

extension SocketError {
  /// Not one that a program can expect of every disk.
  fileprivate var isFaultOfDisk: Bool { code == .diskFailed || code == .diskFull }
}

extension Result {
  fileprivate var isFailure: Bool { if case .failure = self { true } else { false } }
}

/// An open file of a simulated disk.
private final class SimulatedFile: DiskFile {
  private let disk: SimulatedDisk
  /// The life of the host in which it was opened.
  private let life: Int
  private let node: Int
  private let mark: OpenMark
  /// For people.
  private let name: String

  init(disk: SimulatedDisk, life: Int, node: Int, mark: OpenMark, name: String) {
    (self.disk, self.life, self.node, self.mark, self.name) = (disk, life, node, mark, name)
  }

  var count: Int {
    get async throws {
      try disk.check(life, "count")
      let count = try disk.call("count") { $0.state.count(of: node) }
      note("\(name) has \(count) bytes")
      return count
    }
  }

  @concurrent
  func read(at offset: Int, count: Int) async throws -> [UInt8] {
    let range = try checkedRange("read", at: offset, count: count)
    try disk.check(life, "read")
    await disk.wait(.read)
    try disk.check(life, "read")
    let (bytes, areCorrupt) = try disk.noting("read", as: "read at \(offset) of \(name)") { disk throws(SystemError) in
      try disk.read(node, range)
    }
    let result = areCorrupt ? ", some of which are not those of the disk" : ""
    note("reads \(bytes.count) bytes at \(offset) of \(name)\(result)", bytes, isFault: areCorrupt)
    return bytes
  }

  @concurrent
  func write(_ bytes: [UInt8], at offset: Int) async throws {
    _ = try checkedRange("write", at: offset, count: bytes.count)
    try await write("write", bytes, offset)
  }

  @concurrent
  func append(_ bytes: [UInt8]) async throws { try await write("append", bytes, nil) }

  private func write(_ operation: String, _ bytes: [UInt8], _ offset: Int?) async throws {
    try disk.check(life, operation)
    let written = try disk.call(operation) { $0.write(bytes, at: offset, to: node) }
    let result = written.error == nil ? "" : ", of which it fails after \(written.count)"
    let isFault = written.error.map { SocketError($0, operation: operation).isFaultOfDisk } ?? false
    note("writes \(bytes.count) bytes at \(written.offset) of \(name)\(result)", bytes, isFault: isFault)
    if let place = written.unreadable { note("the sector at \(place) of \(name) cannot be read", isFault: true) }
    await disk.wait(.write)
    try disk.check(life, operation)
    guard let error = written.error else { return }
    var failure = SocketError(error, operation: operation)
    failure.bytesTransferred = written.count
    throw failure
  }

  @concurrent
  func truncate(to size: Int) async throws {
    _ = try checkedRange("truncate", at: 0, count: size)
    try disk.check(life, "truncate")
    try disk.noting("truncate", as: "truncate \(name) to \(size) bytes") { disk throws(SystemError) in
      try disk.change("ftruncate") { state throws(SystemError) in try state.truncate(node, to: size) }
    }
    note("truncates \(name) to \(size) bytes")
    await disk.wait(.write)
    try disk.check(life, "truncate")
  }

  @concurrent
  func synchronize() async throws {
    try disk.check(life, "synchronize")
    let end = try disk.call("synchronize") { $0.state.changes(of: node) }
    await disk.wait(.synchronize)
    try disk.check(life, "synchronize")
    switch try disk.call("synchronize", { $0.synchronize(node, upTo: end) }) {
    case .synchronized(let changes): note("synchronizes \(name): \(changes) changes")
    case .failed(let loss):
      note("fails to synchronize \(name)\(loss.isEmpty ? "" : ": " + loss.text("it"))", isFault: true)
      throw SocketError(SystemError(call: "fdatasync", errno: Errno.inputOutput), operation: "synchronize")
    }
  }

  private func note(_ text: String, _ bytes: [UInt8] = [], isFault: Bool = false) {
    VirtualThread.required.noteDisk(text, bytes, isFault: isFault, on: disk.host)
  }
}
