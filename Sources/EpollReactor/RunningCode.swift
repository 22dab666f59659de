/// What a loop knows of the code that runs on its thread now.
struct RunningCode {
  /// The presumed executor preference of the task whose job runs.
  var preference = TaskPreference.other
  /// The number of calls that the running job may still make without a hop: see `ReactorExecutor.claimCallWithoutHop`. It is 0 while a
  /// socket's own code runs.
  var callsWithoutHopLeft = 0
  /// Whether the code of an event, a deadline or a turn runs.
  var isInEvent = false
  /// The call that the current event has resumed.
  var resumed: JobQueue.Item?
  #if ACTORSOCKETS_PLAIN
    /// The actor's executor to which a suspended call returns now, and the job with which the call continues.
    var returning: ReactorExecutor?
    var returned: UnownedJob?
  #endif

  /// The most calls that one job makes without a hop. Like `LookaheadLimit.most`, it limits how long a job holds up other sockets.
  static let mostCallsWithoutHop = 64
}
