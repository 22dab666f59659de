/// How a ``SimulatedDisk`` works, and how often it fails.
///
/// ```swift
/// host.disk.properties.synchronizeLatency = .milliseconds(50)...(.seconds(2))
/// host.disk.properties.failedSynchronizations = 0.01
/// ```
///
/// The fractions are from 0 to 1, and 0 by default: without settings, a disk only loses what was not synchronized when the power fails.
public struct DiskProperties: Hashable, Sendable {
  /// How long a read takes; each time between the two is equally likely. 50 to 150 microseconds by default.
  public var readLatency: ClosedRange<Duration> = .microseconds(50)...(.microseconds(150))
  /// How long a write takes, and each change of a name or a size: 10 to 50 microseconds by default.
  public var writeLatency: ClosedRange<Duration> = .microseconds(10)...(.microseconds(50))
  /// How long it takes to synchronize a file or a directory: 1 to 10 milliseconds by default.
  public var synchronizeLatency: ClosedRange<Duration> = .milliseconds(1)...(.milliseconds(10))
  /// The room of the disk in bytes; 1 GiB by default. Each file and each directory uses a block of 4,096 bytes, and the contents whole
  /// blocks. Only blocks that were written count and take memory.
  public var capacity = 1 << 30
  /// The fraction of reads that fail with `.diskFailed`.
  public var failedReads = 0.0
  /// The fraction of writes, and of changes of names and sizes, that fail with `.diskFailed`. Of a write, the beginning may be in the file.
  public var failedWrites = 0.0
  /// The fraction of calls to synchronize that fail with `.diskFailed`. The writes that a file's call should have brought to the disk are
  /// then there or not, and no later call tries them again: only writing them again does. Programs see them until the power fails. Linux
  /// does the same.
  public var failedSynchronizations = 0.0
  /// The fraction of reads with other bytes than those that were written: one bit is flipped, or a sector of 512 bytes comes from another
  /// place of the file.
  public var corruptReads = 0.0
  /// The fraction of writes after which one sector cannot be read: all reads of it fail with `.diskFailed`, until it is written again.
  public var latentErrors = 0.0

  /// Creates the properties of a disk that does not fail.
  public init() {}
}

extension DiskProperties {
  /// For example `reads of 0.00005 to 0.00015 seconds, …`.
  var text: String {
    var parts = [("reads", readLatency), ("writes", writeLatency), ("syncs", synchronizeLatency)].map { name, time in
      "\(name) of \(time.lowerBound) to \(time.upperBound)"
    }
    parts.append("\(capacity) bytes")
    let fractions = [
      ("failed reads", failedReads), ("failed writes", failedWrites), ("failed syncs", failedSynchronizations),
      ("corrupt reads", corruptReads), ("latent errors", latentErrors),
    ]
    for (name, fraction) in fractions where fraction > 0 { parts.append("\(fraction) of \(name)") }
    return parts.joined(separator: ", ")
  }
}
