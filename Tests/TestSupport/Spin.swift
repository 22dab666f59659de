import SocketSystem

/// Keeps the processor busy for this number of nanoseconds; not at all for 0 or less.
package func spin(for nanoseconds: Int64) {
  if nanoseconds <= 0 { return }
  let end = continuousNanoseconds() + nanoseconds
  while continuousNanoseconds() < end {}
}
