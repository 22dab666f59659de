import TestSupport
import Testing

/// The rules that no compiler checks, for the sources as they are. Whoever needs an exception puts it into the list,
/// with its reason.
@Suite(.tags(.pure)) struct SourceRulesTests {
  @Test func `There are sources to check`() {
    #expect(SourceFile.libraries.contains { $0.path == "Sources/EpollReactor/Reactor.swift" })
    #expect(SourceFile.tests.contains { $0.absolutePath == #filePath })
    #expect(SourceFile.examples.contains { $0.path.hasSuffix("/Observers.swift") })
  }

  @Test(arguments: SourceFile.sources)
  func `Promises to the compiler are few, and each says who keeps it`(file: SourceFile) {
    check(file, .words(SourceRule.promises, allowed: Exceptions.promises, because: "is not in the list of promises"))
    check(file, .promisesAreExplained)
  }

  @Test(arguments: SourceFile.sources)
  func `Unsafe code says why it is right, and is in the lower layers only`(file: SourceFile) {
    let mayBeUnsafe =
      ["SocketSystem", "EpollReactor"].contains(file.target) || file.path.hasPrefix("Sources/ActorSocketsTLS/Engine/")
      || Exceptions.unsafe.contains { $0 == file.path }
    check(file, mayBeUnsafe ? .unsafeExpressionsAreExplained : .noUnsafeExpressions)
  }

  @Test(arguments: SourceFile.sources)
  func `Nothing traps but what the list says`(file: SourceFile) {
    check(
      file,
      .words(
        Self.trapping, allowed: Exceptions.traps,
        because: "stops the program; throw instead, or put it into the list of traps with its reason"))
  }

  @Test(arguments: SourceFile.libraries)
  func `The kernel is behind SocketSystem, and Foundation is nowhere`(file: SourceFile) {
    check(
      file,
      .words(
        ["import Foundation", "import FoundationEssentials", "import Dispatch"],
        because: "is a large dependency that the libraries do without"))
    if file.target != "SocketSystem" {
      check(file, .words(["import Glibc", "import CLinux"], because: "belongs into SocketSystem"))
    }
  }

  @Test(arguments: SourceFile.libraries)
  func `Only one place chooses who answers a system call`(file: SourceFile) {
    if ["SocketSystem", "ActorSocketsTesting"].contains(file.target) { return }
    check(
      file,
      .words(
        ["isSimulated", "isDriven", "SimulatedSystem", "FaultySystem", "Linux()"],
        because: "asks who answers a system call; call CurrentSystem, or add a method to SystemCalls"))
  }

  @Test(arguments: SourceFile.libraries)
  func `Every public operation claims its place in the order of the calls`(file: SourceFile) {
    check(file, .publicOperationsClaimTheirPlace(of: Self.reactorActors, delegating: Exceptions.delegating))
  }

  @Test func `The actors on a reactor are found`() {
    #expect(
      Self.reactorActors.isSuperset(of: [
        "ByteStream", "TCPConnection", "TCPListener", "UDPEndpoint", "TLSConnection", "InMemoryConnection",
        "StreamListener", "InMemoryListener",
      ]))
  }

  private static let reactorActors = Set(
    SourceFile.libraries.flatMap { $0.lines.compactMap(\.declaredReactorActor) } + ["ByteStream", "StreamListener"])

  @Test(arguments: SourceFile.sources)
  func `A file holds one idea`(file: SourceFile) {
    check(file, .length(atMost: 400))
  }

  @Test(arguments: SourceFile.sources)
  func `A function fits on a screen`(file: SourceFile) {
    check(file, .functionLength(atMost: 50))
  }

  @Test(arguments: SourceFile.tests)
  func `No test sleeps to wait for something`(file: SourceFile) {
    check(
      file,
      .words(
        Self.waiting, exceptWith: Self.simulatedTime, allowed: Exceptions.sleeps,
        because: "hopes; wait for a condition, use a gate or manual time instead"))
  }

  @Test(arguments: SourceFile.tests)
  func `No test is skipped silently`(file: SourceFile) {
    check(
      file,
      .words(
        [".enabled(", ".disabled(", "cancel(\"\")", "withKnownIssue", "XCTSkip"], allowed: Exceptions.skips,
        because: "skips without a trace; use .needs or .runs(unless:) of TestSupport, which fail with CI=true"))
  }

  @Test(arguments: SourceFile.sources + SourceFile.examples.filter { $0.path.hasPrefix("Docs/Examples/Sources/") })
  func `Text from peers and names of files are compared as bytes`(file: SourceFile) {
    let violations = SourceRule.textsAreBytes.violations(file)
    if Exceptions.texts.contains(where: { $0.covers(file) }) { return }
    for violation in violations { violation.record(in: file.path) }
  }

  @Test(arguments: Exceptions.texts.indices)
  func `Only what compares texts is in the list of these files`(index: Int) {
    let allowance = Exceptions.texts[index]
    let files = (SourceFile.sources + SourceFile.examples).filter(allowance.covers)
    #expect(files.contains { !SourceRule.textsAreBytes.violations($0).isEmpty }, "\(allowance.path)")
  }

  @Test(arguments: SourceFile.examples)
  func `The package of examples keeps to the rules, too`(file: SourceFile) {
    check(file, .length(atMost: 400))
    check(file, .functionLength(atMost: 50))
    check(file, .words(Self.trapping, because: "stops the program; throw instead"))
    check(
      file,
      .words(
        Self.waiting, exceptWith: Self.simulatedTime, allowed: Exceptions.sleeps,
        because: "hopes; wait for a condition instead"))
    check(file, .promisesAreExplained)
    check(file, .unsafeExpressionsAreExplained)
  }

  private static let trapping = ["try!", "as!", "fatalError", "precondition", "preconditionFailure", "unowned"]
  /// Where time is simulated or manual, sleeping takes no time.
  private static let simulatedTime = ["Simulation", "simulation", "imulated", "ManualTime", "ManualClock"]
  private static let waiting = ["sleep(", "usleep(", "nanosleep(", "letTimePass(", "poll(nil", "select("]

  private func check(_ file: SourceFile, _ rule: SourceRule) {
    for violation in rule.violations(file) { violation.record(in: file.path) }
  }
}

enum Exceptions {
  static let promises = [
    Allowance(
      path: "Sources/SocketSystem/Threads/Lock.swift", words: "@unchecked Sendable", count: 2,
      reason: "a lock, and what is touched under it only"),
    Allowance(
      path: "Sources/SocketSystem/Threads/Condition.swift", words: "@unchecked Sendable", count: 1,
      reason: "a condition variable, which is made for many threads"),
    Allowance(
      path: "Sources/EpollReactor/JobQueue.swift", words: "@unchecked Sendable", count: 1,
      reason: "its state is touched under its lock only"),
    Allowance(
      path: "Sources/EpollReactor/EventLoop.swift", words: "@unchecked Sendable", count: 1,
      reason: "its state is touched on its thread only"),
    Allowance(
      path: "Sources/EpollReactor/Registration.swift", words: "@unchecked Sendable", count: 1,
      reason: "its state is touched on the reactor's thread only"),
    Allowance(
      path: "Sources/EpollReactor/ReactorExecutor.swift", words: "@unchecked Sendable", count: 1,
      reason: "the class of a registration inherits from it; its own properties are constants or atomic"),
    Allowance(
      path: "Sources/EpollReactor/ReactorBound.swift", words: "@unchecked Sendable", count: 1,
      reason: "its value can be had on the reactor's thread alone, which it checks"),
    Allowance(
      path: "Sources/EpollReactor/Suspension.swift", words: "nonisolated(unsafe)", count: 2,
      reason: "its state is touched on the reactor's thread only, but not as that of an actor"),
    Allowance(
      path: "Sources/ActorSocketsTesting/Simulation/VirtualClock.swift", words: "@unchecked Sendable", count: 1,
      reason: "a pointer to an atomic value"),
    Allowance(
      path: "Sources/ActorSocketsTesting/Simulation/VirtualThread.swift", words: "@unchecked Sendable", count: 1,
      reason: "the state of one thread, which is not an actor because it runs the jobs of all actors"),
    Allowance(
      path: "Sources/ActorSocketsTesting/Simulation/VirtualDriver.swift", words: "@unchecked Sendable", count: 1,
      reason: "a part of the state of that thread"),
    Allowance(
      path: "Sources/ActorSocketsTesting/Simulation/ProgramRemains.swift", words: "@unchecked Sendable", count: 1,
      reason: "a task-local value of the tasks that run on that thread"),
    Allowance(
      path: "Sources/ActorSocketsTLS/Engine/OpenSSLObject.swift", words: "@unchecked Sendable", count: 1,
      reason: "objects of OpenSSL's that are only read, which it allows to any number of threads"),
    Allowance(
      path: "Sources/ActorSocketsTLS/Engine/CertificateStack.swift", words: "@unchecked Sendable", count: 1,
      reason: "a stack of certificates that does not change"),
  ]

  /// Files above EpollReactor with unsafe code: the tool reads the words of its command line as bytes, and reads and writes
  /// its own standard streams, which are no sockets.
  /// Simulations run jobs of the runtime, replace the clocks of a thread, and copy the process.
  static let unsafe = [
    "Sources/sockcat/Process/StandardStreams.swift", "Sources/sockcat/Process/Arguments.swift",
    "Sources/ActorSocketsTesting/Simulation/ChildProcess.swift",
    "Sources/ActorSocketsTesting/Simulation/VirtualClock.swift",
    "Sources/ActorSocketsTesting/Simulation/HeldTasks.swift",
    "Sources/ActorSocketsTesting/Simulation/VirtualExecutors.swift",
  ]

  /// Public operations that only call another one, which claims the place.
  static let delegating = [
    "func serve(", "func _serve(", "func peerCredentials(", "func accept() ", "func drain(within duration: Duration) {",
  ]

  static let sleeps = [
    Allowance(
      path: "Docs/Examples/Tests/ExampleSupport/Deadline.swift", words: "sleep(", count: 2,
      reason: "deadlines, which no test that passes waits for"),
    Allowance(
      path: "Docs/Examples/Tests/ExampleSupport/Program.swift", words: "sleep(", count: 1,
      reason: "a deadline, which no test that passes waits for"),
    Allowance(
      path: "Docs/Examples/Sources/ReverseProxy/ProxyService.swift", words: "sleep(", count: 1,
      reason: "the pause between two checks of an origin"),
    Allowance(
      path: "Docs/Examples/Sources/ReverseProxy/Exchange.swift", words: "sleep(", count: 1,
      reason: "the deadline for the rest of a body that is dropped"),
    Allowance(
      path: "Docs/Examples/Sources/CodableRPC/RPCClient.swift", words: "sleep(", count: 1,
      reason: "the deadline of a call"),
    Allowance(
      path: "Docs/Examples/Sources/CodableRPC/RPCServer.swift", words: "sleep(", count: 1,
      reason: "the deadline of a call"),
    Allowance(
      path: "Docs/Examples/Sources/ReplicatedRegister/ReplicaLink.swift", words: "sleep(", count: 1,
      reason: "an example that waits before it tries again; it is tested in virtual time"),
    Allowance(
      path: "Docs/Examples/Sources/Raft/NodeLink.swift", words: "sleep(", count: 1,
      reason: "an example that waits before it connects again; it is tested in virtual time"),
    Allowance(
      path: "Docs/Examples/Sources/Raft/RaftClient.swift", words: "sleep(", count: 1,
      reason: "an example that waits before it tries again; it is tested in virtual time"),
    Allowance(
      path: "Docs/Examples/Sources/Raft/RaftNode.swift", words: "sleep(", count: 1,
      reason: "the timer of an example, which is tested in virtual time"),
    Allowance(
      path: "Tests/Realism/Sources/realism/Realism.swift", words: "sleep(", count: 2,
      reason: "the pauses of the program whose times are compared; no test"),
    Allowance(
      path: "Tests/SockcatTests/Examples/Reconnecting.swift", words: "sleep(", count: 1,
      reason: "an example that waits before it connects again; it is tested in virtual time"),
    Allowance(
      path: "Tests/SockcatTests/Examples/FirstTests.swift", words: "sleep(", count: 1,
      reason: "sleeps in virtual time, which take no time"),
    Allowance(
      path: "Tests/SockcatTests/Examples/Register.swift", words: "sleep(", count: 1,
      reason: "an example that waits before it tries again; it is tested in virtual time"),
    Allowance(
      path: "Tests/SockcatTests/Examples/Election.swift", words: "sleep(", count: 1,
      reason: "an example that repeats its messages; it is tested in virtual time"),
    Allowance(
      path: "Tests/SockcatTests/Examples/Reminders.swift", words: "sleep(", count: 1,
      reason: "an example that sleeps; it is tested on a manual clock"),
    Allowance(
      path: "Tests/SockcatTests/Examples/Lease.swift", words: "sleep(", count: 1,
      reason: "an example that waits before it asks again; it is tested in virtual time"),
    Allowance(
      path: "Tests/ActorSocketsTests/Simulation/CrashTests.swift", words: "sleep(", count: 4,
      reason: "sleeps in virtual time, which take no time"),
    Allowance(
      path: "Tests/ActorSocketsTests/Simulation/BlockingTests.swift", words: "sleep(", count: 3,
      reason: "calls of a simulated program, which fail"),
    Allowance(
      path: "Tests/ActorSocketsTests/Simulation/BlockingTests.swift", words: "usleep(", count: 1,
      reason: "shows that other threads still sleep"),
    Allowance(
      path: "Tests/ActorSocketsTests/Simulation/BlockingTests.swift", words: "nanosleep(", count: 1,
      reason: "a call of a simulated program, which fails"),
    Allowance(
      path: "Tests/ActorSocketsTests/Simulation/SimulationLimitTests.swift", words: "sleep(", count: 2,
      reason: "sleeps in virtual time, which take no time"),
    Allowance(
      path: "Tests/ActorSocketsTests/Network/MiddleboxTests.swift", words: "sleep(", count: 1,
      reason: "sleeps in virtual time, which take no time"),
    Allowance(
      path: "Tests/ActorSocketsTests/Simulation/ChaosTests.swift", words: "sleep(", count: 3,
      reason: "sleeps in virtual time, which take no time"),
    Allowance(
      path: "Tests/ActorSocketsTests/Network/QueueHistory.swift", words: "sleep(", count: 1,
      reason: "sleeps in virtual time, which take no time"),
    Allowance(
      path: "Tests/ActorSocketsTests/Network/DatagramSimulationTests.swift", words: "sleep(", count: 1,
      reason: "sleeps in virtual time, which take no time"),
    Allowance(
      path: "Tests/TestSupport/Program.swift", words: "sleep(", count: 1,
      reason: "a deadline for a program that hangs, which no test that passes waits for"),
    Allowance(
      path: "Tests/SockcatTests/Examples/Shaping.swift", words: "sleep(", count: 1,
      reason: "an example that slows datagrams down, which is what the waiting is for"),
    Allowance(
      path: "Tests/TestSupport/Deadline.swift", words: "sleep(", count: 1,
      reason: "the same pause in a simulation"),
    Allowance(
      path: "Tests/TestSupport/Deadline.swift", words: "poll(nil", count: 2,
      reason: "the pause before a condition is asked for again, and before the watchdog looks at the clock again"),
    Allowance(
      path: "Tests/ActorSocketsTests/TCP/ObserverTests.swift", words: "poll(nil", count: 1,
      reason: "code that blocks the reactor, which is what is reported"),
    Allowance(
      path: "Tests/EpollReactorTests/ReactorTests.swift", words: "poll(nil", count: 1,
      reason: "code that blocks the reactor until a condition is true"),
    Allowance(
      path: "Tests/EpollReactorTests/WorkerPoolTests.swift", words: "poll(nil", count: 2,
      reason: "code that blocks a reactor or a worker"),
    Allowance(
      path: "Tests/TestSupport/Threads.swift", words: "poll(nil", count: 1,
      reason: "code that blocks a thread until a condition is true, which is what the test is about"),
  ]

  static let skips = [
    Allowance(
      path: "Tests/TestSupport/Requirement.swift", words: ".enabled(", count: 2,
      reason: "the only place where tests are skipped, or fail, with a reason")
  ]

  static let traps = [
    Allowance(
      path: "Sources/ActorSocketsTestTraits/SimulatedTrait.swift", words: "fatalError", count: 1,
      reason: "the testing library allows no test to be left that has not ended"),
    Allowance(
      path: "Sources/ActorSockets/Queues/DeadlineKind.swift", words: "fatalError", count: 1,
      reason:
        "a deadline with a foreign number would end the wrong thing; kinds come from an enum, and no peer gets there"),
    Allowance(
      path: "Sources/SocketSystem/Linux/EpollPoller.swift", words: "fatalError", count: 1,
      reason:
        "if a sleeping reactor cannot be woken, everything on it would wait for ever in silence; no peer gets there"),
    Allowance(
      path: "Sources/ActorSocketsTesting/Simulation/VirtualExecutors.swift", words: "preconditionFailure", count: 1,
      reason: "a clock of the program under test that counts in something else than Swift's Duration"),
    Allowance(
      path: "Sources/ActorSocketsTesting/Simulation/VirtualExecutors.swift", words: "precondition", count: 1,
      reason: "isolation is checked because the code asks for it"),
    Allowance(
      path: "Sources/ActorSocketsTesting/Simulation/Simulation+Network.swift", words: "preconditionFailure", count: 1,
      reason: "a test that changes hosts or links outside of the simulation would race with it"),
    Allowance(
      path: "Sources/ActorSocketsTesting/Network/KernelSlots.swift", words: "precondition", count: 1,
      reason: "descriptors of a test with more hosts would mean sockets of others"),
    Allowance(
      path: "Sources/EpollReactor/Reactor.swift", words: "fatalError", count: 1,
      reason: "a program whose event loop cannot start has nothing to go on with; no peer gets there"),
    Allowance(
      path: "Sources/EpollReactor/ReactorExecutor.swift", words: "precondition", count: 1,
      reason: "what assumeIsolated is made of: isolation that does not hold is a data race"),
    Allowance(
      path: "Sources/EpollReactor/ReactorBound.swift", words: "precondition", count: 1,
      reason: "a value used on another thread than its own is a data race"),
    Allowance(
      path: "Sources/ActorSockets/Queues/FIFO.swift", words: "preconditionFailure", count: 1,
      reason: "an index that is not of this queue, as of an array"),
  ]
}
