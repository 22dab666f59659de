import Glibc

/// Nanoseconds of CLOCK_BOOTTIME, the clock that `ContinuousClock` reads on Linux: it goes on while the machine sleeps.
package func continuousNanoseconds() -> Int64 {
  var time = timespec()
  // SAFETY: `time` is valid for the call.
  unsafe clock_gettime(CLOCK_BOOTTIME, &time)
  return Int64(time.tv_sec) &* 1_000_000_000 &+ Int64(time.tv_nsec)
}
