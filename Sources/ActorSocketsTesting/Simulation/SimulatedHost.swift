public import ActorSockets
internal import SocketSystem

/// A computer in the network of a simulation.
///
/// ```swift
/// try await simulation.run {
///   let server = simulation.host("server")
///   server.start { try await runServer() }
///   let client = simulation.host("client")
///   let answer = try await client.run {
///     let connection = try await TCPConnection.connect(to: .host("server", port: 80))
///     …
///   }
/// }
/// ```
///
/// A program on a host uses the framework as everywhere: ``Reactor/shared`` is the host's reactor, and connections and listeners are in the
/// network of the simulation. Other hosts find it by its name, in upper or lower case, or by its addresses. The tasks that a program
/// creates run on its host.
///
/// Use hosts within the simulated program only; elsewhere their methods stop the program, because they would race with it.
///
/// All hosts share the memory of the process. Programs of several hosts can use the same object, which real ones could not. If a host
/// crashes, calls on its connections never return, even if another host's program has called. So let each program use its own connections.
///
/// A host belongs to the simulation that made it.
public struct SimulatedHost: Sendable, Hashable, CustomStringConvertible {
  let number: Int
  /// The name that other hosts can look up.
  public let name: String

  /// How a host stops. The files of its unix sockets stay, as on a disk, and are stale then.
  public enum Crash: Hashable, Sendable {
    /// The program is killed. The kernel continues: it ends the connections, and resets those with bytes that the program had not read. Its
    /// ``SimulatedHost/disk`` keeps all that was written.
    case process
    /// The power fails. Peers get no packet until they send something after the host has restarted: then the host resets the connection.
    /// Its ``SimulatedHost/disk`` keeps all that was synchronized, and of the rest what the seed decides.
    case power
  }

  /// The addresses of the host, IPv4 first.
  public var addresses: [IPAddress] {
    let addresses = thread.network.addresses(of: number)
    return [.ipv4(addresses.ipv4), .ipv6(addresses.ipv6)]
  }

  /// Whether the host has crashed and not restarted.
  public var isDown: Bool { thread.hosts[number].state == .crashed }

  /// The disk of the host. Give it to the programs of the host, as their `Disk`.
  public var disk: SimulatedDisk { SimulatedDisk(host: number) }

  private var thread: VirtualThread { .required }

  // MARK: Programs

  /// Runs a program on this host, and waits for it.
  ///
  /// *Cancellation* of the caller cancels the program.
  ///
  /// *Ordering*: the program begins after the tasks that are ready, unless the order of the simulation is random.
  ///
  /// - Parameter program: The program.
  /// - Returns: The result of the program.
  /// - Throws: The error of the program; ``SimulationError`` with the code `.crashed` if the host is down or crashes meanwhile.
  public func run<Result: Sendable>(_ program: @escaping @Sendable () async throws -> Result) async throws -> Result {
    let outcome = HostOutcome<Result>()
    let error = SimulationError(.crashed, "\(name) has crashed")
    thread.launch(.run, on: number, onCrash: { outcome.set(.failure(error)) }) { ends in
      outcome.task = Task {
        let result: Swift.Result<Result, any Error>
        do { result = .success(try await program()) } catch { result = .failure(error) }
        ends()
        outcome.set(result)
      }
    }
    return try await outcome.value()
  }

  /// Starts a program on this host, and starts it again whenever the host restarts. If it throws, the simulation ends with its error;
  /// `CancellationError` is ignored.
  ///
  /// *Cancellation*: the program is not cancelled with the task that starts it. It stops when the host crashes or the simulation ends.
  ///
  /// - Parameter program: The program. It replaces an earlier one at the next restart.
  public func start(_ program: @escaping @Sendable () async throws -> Void) {
    let thread = thread
    thread.hosts[number].program = program
    if !isDown { thread.runProgram(of: number) }
  }

  // MARK: Faults

  /// Stops everything on this host at once. Its tasks never continue, and nothing that they would do at their end happens: no `defer`, no
  /// `catch`. Their memory is not freed: about 3 KB for a small task. Calls of ``run(_:)`` that wait throw.
  ///
  /// There is an exception: a task of the host that calls this continues until it waits. Do not call this on the host that runs the
  /// simulation's own program.
  ///
  /// - Parameter kind: How the host stops. By default the power fails, because that finds more bugs: what the program has not synchronized
  ///   may be lost.
  public func crash(_ kind: Crash = .power) { thread.crash(number, keepsKernel: kind == .process) }

  /// Calls a closure at each crash of this host from now on, for storage that is not its ``disk``.
  ///
  /// ```swift
  /// host.onCrash { kind in if kind == .power { storage.loseUnsynced() } }
  /// ```
  ///
  /// The closure runs within ``crash(_:)``, on the thread of the simulation. The host is down then, and its tasks have stopped. It may
  /// change objects of the test, draw from ``Simulation/random`` and call ``Simulation/note(_:)``. It cannot wait, and must not crash,
  /// restart, pause or resume a host.
  ///
  /// *Ordering*: closures are called in the order in which they were given.
  ///
  /// - Parameter body: The closure, which is told how the host stops.
  public func onCrash(_ body: @escaping @Sendable (_ kind: Crash) -> Void) {
    thread.hosts[number].crashHooks.append(body)
  }

  /// Starts this host again after a crash, and the program that ``start(_:)`` was given. It does nothing on a host that is not down.
  public func restart() { thread.restart(number) }

  /// Stops the programs of this host for a while. Its kernel continues: it answers peers, accepts connections up to the backlog, and
  /// receives bytes up to the size of its buffers.
  public func pause() { thread.pause(number) }

  /// Continues the programs of this host. Everything that became ready meanwhile runs now.
  public func resume() { thread.resume(number) }

  /// Sets the clocks of this host from now on. They keep what was set when the host crashes and restarts.
  ///
  /// ```swift
  /// host.setClock(offset: .milliseconds(-20), drift: 0.000_1)
  /// ```
  ///
  /// The offset moves only the time of day, as when an administrator or NTP steps the clock: `Date`, clock_gettime(2) with
  /// CLOCK_REALTIME. The drift changes how fast time passes for the programs of the host: `ContinuousClock`, `SuspendingClock` and the
  /// time of day. So it moves the ends of their sleeps and timeouts, also of those that have begun. With a drift of 0.1, a sleep of one
  /// second ends after 1/1.1 s. The monotonic clocks never jump and never go back.
  ///
  /// The kernel of the host keeps the time of the simulation: retransmissions, keep-alive and TIME_WAIT of TCP do not change.
  /// ``Simulation/clock`` shows the time of the simulation on all hosts.
  ///
  /// - Parameters:
  ///   - offset: How far the host's time of day is now ahead of that of the simulation; behind, if it is negative. From then on, a
  ///     drift changes the distance. A time of day before 1970 is shown as the beginning of 1970, and one after 2262 as the end.
  ///   - drift: How much faster the clocks of the host run, as a fraction from -0.99 to 99. With 0.000_1 they gain 100 microseconds in
  ///     each second. With -0.5 they run at half the speed. A value outside of this range becomes the nearest one within; NaN counts as
  ///     zero. It is rounded to billionths.
  public func setClock(offset: Duration = .zero, drift: Double = 0) {
    let behind = Duration.zero - max(offset, .nanoseconds(-Int64.max))
    let nanoseconds = offset < .zero ? -behind.clampedNanoseconds : offset.clampedNanoseconds
    thread.note("the clocks of \(name) are \(Duration.nanoseconds(nanoseconds)) ahead, and drift by \(drift)")
    thread.setClock(of: number, offset: nanoseconds, drift: drift)
  }

  /// Limits what the programs of this host can open.
  ///
  /// - Parameters:
  ///   - descriptors: One more than the highest descriptor, 1 to 65,536: RLIMIT_NOFILE. A reactor needs one.
  ///   - ports: The ports that are chosen for outgoing connections and for listeners on port 0. They do not include port 0.
  ///   - backlog: The longest backlog of a listener, 0 to 65,535: net.core.somaxconn. It applies to listeners that are made from now on.
  public func setLimits(
    descriptors: Int = 65_536, ports: ClosedRange<UInt16> = 32_768...60_999, backlog: Int = 4_096
  ) {
    let ports = max(1, ports.lowerBound)...max(1, ports.upperBound)
    let limits = HostLimits(
      descriptors: max(1, descriptors), ports: ports, backlog: min(max(0, backlog), 65_535))
    thread.network.limit(number, to: limits)
    thread.note(
      "\(name) has at most \(limits.descriptors) descriptors, a backlog of \(limits.backlog) and the ports \(limits.ports)"
    )
  }

  /// Lets system calls of this host's programs fail from now on. A restart after `.power` ends the faults.
  ///
  /// - Parameter faults: The faults, which replace earlier ones. With an empty array, no call fails any more.
  public func setFaults(_ faults: [CallFault]) {
    let thread = thread
    let seed = thread.network.random(below: .max)
    thread.network.kernel(of: number)?.faults = FaultPlan(faults, seed: seed)
    thread.note("calls on \(name): \(faults.isEmpty ? "no faults" : faults.map(\.text).joined(separator: ", "))")
  }

  /// The name of the host.
  public var description: String { name }
}

private final class HostOutcome<Value: Sendable>: Sendable {
  private struct State {
    var result: Result<Value, any Error>?
    var waiter: CheckedContinuation<Void, Never>?
    var task: Task<Void, Never>?
  }
  private let state = Locked(State())

  var task: Task<Void, Never>? {
    get { state.withLock { $0.task } }
    set { state.withLock { $0.task = newValue } }
  }

  func set(_ result: Result<Value, any Error>) {
    let waiter = state.withLock { state -> CheckedContinuation<Void, Never>? in
      if state.result != nil { return nil }
      state.result = result
      return state.waiter.take()
    }
    waiter?.resume()
  }

  func value() async throws -> Value {
    await withTaskCancellationHandler {
      await withCheckedContinuation { continuation in
        let isDone = state.withLock { state in
          if state.result == nil { state.waiter = continuation }
          return state.result != nil
        }
        if isDone { continuation.resume() }
      }
    } onCancel: {
      task?.cancel()
    }
    guard let result = state.withLock({ $0.result }) else { throw CancellationError() }
    return try result.get()
  }
}
