// The decisions of `BackgroundFile`, as a value.
//
//    open ──close()──▶ closing ──the trailer was taken──▶ closed
//
// - A unit is a number of bytes that is written whole or not at all. The header and the trailer are no units.
// - `bufferSize` limits the bytes that wait, including those that are being written. A unit that does not fit is dropped.
// - `fileSize` limits the bytes of the header and all units. The first unit that does not fit is dropped, and so is every later one,
//   although it might fit: the file has everything up to one moment.
// - After a failure, everything that waits and everything later is dropped. No trailer is written.
// - Every unit that is appended before `close()` counts as kept or as dropped, and never as both.

struct FileBacklog {
  /// In bytes.
  struct Limits {
    var bufferSize: Int
    var fileSize: Int
  }

  /// Bytes to write with one call, and where the header and each unit in them end.
  struct Batch {
    var bytes: [UInt8] = []
    fileprivate(set) var ends: [Int] = []

    /// The bytes up to the last unit that ends within the first `count` bytes.
    func wholeBytes(in count: Int) -> Int { ends.last { $0 <= count } ?? 0 }
  }

  enum Step {
    case write(Batch)
    case close
  }

  private enum Phase {
    case open
    case closing(trailer: @Sendable (FileReport) -> [UInt8])
    case closed
  }

  private(set) var report = FileReport()
  private let limits: Limits
  private var phase = Phase.open
  private var waiting = Batch()
  private var underway = 0
  /// The bytes of the header and of all units that were not dropped.
  private var size: Int

  init(header: [UInt8], _ limits: Limits) {
    self.limits = limits
    size = header.count
    waiting = Batch(bytes: header, ends: [header.count])
  }

  /// A closed file ignores the unit.
  mutating func append(_ unit: [UInt8]) {
    guard case .open = phase else { return }
    if size + unit.count > limits.fileSize { report.hasReachedFileSize = true }
    let isDropped =
      report.hasReachedFileSize || report.failure != nil
      || waiting.bytes.count + underway + unit.count > limits.bufferSize
    if isDropped {
      report.dropped += 1
      return
    }
    size += unit.count
    report.kept += 1
    waiting.bytes += unit
    waiting.ends.append(waiting.bytes.count)
  }

  /// When the units that wait are written, the trailer follows, and the file is closed.
  mutating func close(trailer: @escaping @Sendable (FileReport) -> [UInt8]) {
    if case .open = phase { phase = .closing(trailer: trailer) }
  }

  /// `nil` if there is nothing to do. The previous step must be done.
  mutating func next() -> Step? {
    underway = 0
    if waiting.bytes.isEmpty, case .closing(let trailer) = phase {
      phase = .closed
      if report.failure != nil { return .close }
      // The trailer is no unit. If it is torn, all of it is removed.
      waiting.bytes = trailer(report)
    }
    if !waiting.bytes.isEmpty {
      var batch = Batch()
      swap(&batch, &waiting)
      underway = batch.bytes.count
      return .write(batch)
    }
    if case .closed = phase { return .close }
    return nil
  }

  /// Only the first `count` bytes of the batch were written.
  mutating func failed(_ error: SystemError, writing batch: Batch, after count: Int) {
    if report.failure == nil { report.failure = error }
    let ends = batch.ends.count { $0 > count } + waiting.ends.count
    waiting = Batch()
    // If the header is among them, so is every unit.
    let lost = min(ends, report.kept)
    report.dropped += lost
    report.kept -= lost
  }
}

package struct FileReport: Sendable {
  /// Includes the units that wait to be written.
  package var kept = 0
  package var dropped = 0
  package var hasReachedFileSize = false
  /// The first error of write(2).
  package var failure: SystemError?
}
