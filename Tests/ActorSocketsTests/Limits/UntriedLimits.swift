import TestSupport

extension LimitBoundaries {
  static let untried: [UntriedLimit] = switches + ofSystem + measured

  /// Values that are no limits.
  private static let switches: [UntriedLimit] = [
    .init("small writes are sent at once (TCP_NODELAY)", "It is on or off, and has no boundary."),
    .init("closing when the peer has finished and everything was read", "It is on or off, and has no boundary."),
    .init("aborting when an enqueued write exceeds the write budget", "It is on or off, and has no boundary."),
    .init("closing when an operation times out", "It is on or off, and has no boundary."),
    .init(
      "binding while connections of an earlier listener are in TIME_WAIT", "It is on or off, and has no boundary."),
    .init("timeout of other operations", "There is no limit by default."),
    .init("time in which no byte moves", "There is no limit by default."),
    .init("connections of one peer", "There is no limit by default."),
    .init("bytes of a PROXY header", position: 1, "It is the number of a version."),
    .init("reactors of `serve`", position: 0, "It is the usual number; the limit is the second one."),
  ]

  /// Limits that the system sets or counts.
  private static let ofSystem: [UntriedLimit] = [
    .init("time that sent bytes stay unacknowledged", "The kernel decides."),
    .init("workers", "The number of processors decides, and two is less than that of any machine that runs the tests."),
    .init(
      "the same with ``UDPEndpoint/Configuration/receiveOffload``", position: 1,
      "The kernel joins the datagrams, and no call says how many came in one message."),
    .init(
      "the same with ``UDPEndpoint/Configuration/receiveOffload``", position: 2,
      "The kernel joins the datagrams, and no message of UDP can have more bytes."),
    .init(
      "bytes of one `sendfile`; of one piece of a file without a socket", position: 0,
      "The kernel takes only as many bytes as its buffers have room for; the boundary of a budget tries the number."),
    .init(
      "time to discard input before a TCP socket is closed; while a server drains; if descriptors are short",
      position: 2,
      "Only a process without free descriptors comes there; LingeringTests try it with a limit of their own."),
    .init(
      "attempts to lock the directory of a unix socket",
      "The attempts are system calls within one call, and no test sees how many there are."),
    .init(
      "pieces of one gathered send; bytes after which no further write is added", position: 1,
      "Only the kernel sees what is given to it together; WriteQueueTests tries another number."),
  ]

  /// Limits of time that the processor measures.
  private static let measured: [UntriedLimit] = [
    .init(
      "working time of an iteration of the loop; of each kind of work, at least",
      "The loop measures real time; StarvationTests counts how much runs before something else does."),
    .init(
      "jobs that a worker runs before it gives its thread back; time",
      "A worker also stops after a time that it measures; WorkerPoolTests and LimitBudgetTests see that others run."),
    .init(
      "time that a reactor has to answer an inspection",
      "A simulated reactor cannot be blocked; InspectionTests blocks a real one, which is reported after a second."),
    .init(
      "clients of an inspection at a time; time that each has for the whole report",
      "ServeLimits and the timeouts of writes have boundaries of their own."),
  ]
}
