package import Testing

// What a suite needs to be run with, where its folder does not say it. `Tests/Tools/test.sh` selects suites by folders and by these tags.
// A tag stands in the line that declares the suite.

extension Tag {
  /// Uses no sockets, reactors or processes, and measures neither memory nor time: the tests run in parallel with others.
  @Tag package static var pure: Tag
  /// Uses one thread only. The thread sanitizer finds nothing there.
  @Tag package static var singleThread: Tag
  /// Reaches code that manages memory by hand: for the address sanitizer.
  @Tag package static var manualMemory: Tag
  /// Has simulations that end before their tasks, for example hosts that crash. Such tasks never end, so their memory is never freed.
  @Tag package static var crashes: Tag
  /// Runs programs with Foundation's Process, or uses its regular expressions. Both leak memory.
  @Tag package static var foundation: Tag
  /// Does one thing very often, to find wrong bytes and memory that grows. Other suites find data races on these ways.
  @Tag package static var repeats: Tag
  /// Needs the runtime's backtraces, which do not work with a sanitizer's runtime in the process.
  @Tag package static var backtraces: Tag
  /// Also runs in simulations, and on reactors with faults.
  @Tag package static var simulated: Tag
  /// Is about simulations, or the simulated network.
  @Tag package static var simulation: Tag
}
