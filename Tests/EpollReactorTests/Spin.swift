import SocketSystem

/// Computes for this number of nanoseconds.
func spin(for nanoseconds: Int64) {
  let end = continuousNanoseconds() + nanoseconds
  while continuousNanoseconds() < end {}
}
