struct RunningCode {
  /// The presumed executor preference of the task whose job runs.
  var preference = TaskPreference.other
  /// Calls that the running job may still make: see `ReactorExecutor.claimCallWithoutHop`. It is 0 while a socket's own code runs.
  var callsWithoutHopLeft = 0
  /// An event, a deadline or a turn.
  var isInEvent = false
  /// The calls that events, deadlines and turns have resumed.
  var resumed = JobBatch()
  var sends = WaitingList<GatheredSend>()
  /// The bytes of large receives since the resumed calls ran.
  var largeReceives = 0
  #if ACTORSOCKETS_PLAIN
    /// The actor's executor to which a suspended call returns now, and the job with which the call continues.
    var returning: ReactorExecutor?
    var returned: UnownedJob?
  #endif

  /// Like `LookaheadLimit.most`, it limits how long a job holds up other sockets.
  static let mostCallsWithoutHop = 64
}
