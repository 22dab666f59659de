import Glibc

/// `ContinuousClock` reads this clock on Linux. It continues while the machine sleeps.
package func continuousNanoseconds() -> Int64 {
  var time = timespec()
  // SAFETY: `time` is valid for the call.
  unsafe clock_gettime(CLOCK_BOOTTIME, &time)
  return Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
}

/// Since 1970. The clock may jump when it is set.
package func realtimeNanoseconds() -> Int64 {
  var time = timespec()
  // SAFETY: `time` is valid for the call.
  unsafe clock_gettime(CLOCK_REALTIME, &time)
  return Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
}
