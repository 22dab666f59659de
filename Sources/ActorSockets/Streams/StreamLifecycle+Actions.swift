extension StreamLifecycle {
  /// What the core carries out, in the order of this list.
  struct Actions: OptionSet, Hashable {
    let rawValue: UInt32

    /// Tell the observer and the transport that the stream is up.
    static let announce = Actions(rawValue: 1 << 0)
    static let startIdleWatch = Actions(rawValue: 1 << 1)
    static let stopIdleWatch = Actions(rawValue: 1 << 2)
    static let disarmDeadline = Actions(rawValue: 1 << 3)
    static let armCloseDeadline = Actions(rawValue: 1 << 4)
    /// Arm the close deadline again, with the short time that a layer has to tell the peer of its failure.
    static let shortenCloseDeadline = Actions(rawValue: 1 << 5)
    static let armTailDeadline = Actions(rawValue: 1 << 6)
    /// If the connection is dropped from now on, it is reset.
    static let resetWhenDropped = Actions(rawValue: 1 << 7)
    /// If the connection is dropped from now on, it is closed in order.
    static let closeWhenDropped = Actions(rawValue: 1 << 8)
    static let reset = Actions(rawValue: 1 << 9)
    /// The transport gives up a connection that was never up.
    static let giveUp = Actions(rawValue: 1 << 10)
    /// Writes begin, and then reads; calls that wait until the stream is up go on.
    static let openQueues = Actions(rawValue: 1 << 12)
    /// Calls that wait for the peer's end go on.
    static let tellOfPeerEnd = Actions(rawValue: 1 << 13)
    /// All writes fail with `writeError`.
    static let refuseWrites = Actions(rawValue: 1 << 14)
    /// The report was made: tell the observer and the calls that wait for it.
    static let report = Actions(rawValue: 1 << 15)
    /// Flushes that wait for the peer's acknowledgement fail with `writeError`.
    static let failFlushes = Actions(rawValue: 1 << 16)
    /// Reads find the end of the stream.
    static let endReads = Actions(rawValue: 1 << 17)
    /// All reads fail with `endError`.
    static let refuseReads = Actions(rawValue: 1 << 18)
    static let pump = Actions(rawValue: 1 << 19)
    static let recheckQueues = Actions(rawValue: 1 << 20)
    /// The transport closes the connection in order.
    static let linger = Actions(rawValue: 1 << 21)
    /// Let go of the transport and of the stream's owner.
    static let release = Actions(rawValue: 1 << 22)
    /// The descriptor is closed: calls that wait for that go on.
    static let notifyReleased = Actions(rawValue: 1 << 23)
    /// An abort was requested: a transport that still closes by itself does so soon.
    static let expireNow = Actions(rawValue: 1 << 24)
  }
}
