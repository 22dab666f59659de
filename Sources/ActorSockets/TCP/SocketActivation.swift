internal import SocketSystem

// Sockets that somebody else made and passed to this process at its start, as systemd does: sd_listen_fds(3).
//
// - They are descriptors 3, 4 and so on: LISTEN_FDS says how many, LISTEN_FDNAMES what they are called, and LISTEN_PID for
//   which process they are. A child process inherits the variables, but not the number of the process, so they are
//   nothing to it: that is why they need not be removed. Nor could they be: nothing keeps unsetenv(3) from running beside
//   a getenv(3) of another thread, and threads there are.
// - The environment is read once, at the first call. A program that changes its environment itself, with setenv(3), does so
//   before that, or before it has threads.
// - All descriptors get close-on-exec then, as with sd_listen_fds(3): a child has no use for them. A program that replaces
//   itself with execve(2) keeps its number, and so passes on an environment without these variables.
// - Each descriptor is given out once. One that is not fit, for example for datagrams, is not touched otherwise.

/// What the environment says of the sockets that were passed to a process.
struct SocketActivation: Equatable {
  struct Passed: Equatable {
    let number: Int32
    let name: String
  }

  /// None if the process was not activated, or another one was.
  let sockets: [Passed]

  /// More than anybody passes; what is beyond is a mistake, for which no memory is taken.
  static let maximumCount = 4096

  /// Reads the variables.
  ///
  /// - Parameters:
  ///   - processID: The process that asks.
  ///   - first: The first descriptor; 3 but in tests.
  ///   - variable: Finds a variable's value.
  /// - Throws: `.invalidArgument` if they contradict themselves.
  init(processID: Int32, first: Int32 = 3, variable: (String) -> String?) throws(SocketError) {
    guard let owner = variable("LISTEN_PID") else {
      sockets = []
      return
    }
    guard let owner = UInt32(decimalDigits: Array(owner.utf8)), owner > 0 else {
      throw Self.nonsense("LISTEN_PID", owner, "is not the number of a process")
    }
    guard owner == UInt32(bitPattern: processID), let text = variable("LISTEN_FDS") else {
      sockets = []
      return
    }
    guard let count = UInt32(decimalDigits: Array(text.utf8)), (1...UInt32(Self.maximumCount)).contains(count) else {
      throw Self.nonsense("LISTEN_FDS", text, "is not a number of sockets from 1 to \(Self.maximumCount)")
    }
    var names = [String](repeating: "unknown", count: Int(count))
    if let text = variable("LISTEN_FDNAMES"), !text.isEmpty {
      names = text.split(separator: ":", omittingEmptySubsequences: false).map { String($0) }
      guard names.count == count else {
        throw Self.nonsense("LISTEN_FDNAMES", text, "has \(names.count) names for \(count) sockets")
      }
    }
    sockets = zip(first..., names).map { Passed(number: $0, name: $1) }
  }

  private static func nonsense(_ variable: String, _ value: String, _ what: String) -> SocketError {
    .invalid("socket activation", "\(variable) is \(AddressError.quote(value)), which \(what)")
  }
}

/// The sockets that were passed to a process, each given out once. Any thread.
final class ActivatedSockets: Sendable {
  static let ofThisProcess = ActivatedSockets {
    () throws(SocketError) in
    try SocketActivation(processID: CurrentProcess.id, variable: CurrentProcess.variable)
  }

  private let read: @Sendable () throws(SocketError) -> SocketActivation
  /// What was passed, and whether it is still here; `nil` before the first call.
  private let passed = Locked<[(socket: SocketActivation.Passed, isHere: Bool)]?>(nil)

  /// - Parameter read: Reads the environment, at the first call.
  init(_ read: @escaping @Sendable () throws(SocketError) -> SocketActivation) { self.read = read }

  /// Gives out listening stream sockets: those of a name, or all that are still here.
  ///
  /// - Returns: The sockets; none if the process was not activated.
  /// - Throws: `.invalidArgument` if there is none of that name, or one of that name is no such socket; then all stay.
  func take(named name: String?) throws -> [AdoptableSocket] {
    try passed.withLock { passed in
      var sockets = try passed ?? begin()
      defer { passed = sockets }
      if sockets.isEmpty { return [] }
      let wanted = sockets.indices.filter { name == nil || sockets[$0].socket.name == name }
      let here = wanted.filter { sockets[$0].isHere }
      if let name, here.isEmpty {
        throw Self.missing(name, wasTaken: !wanted.isEmpty, among: sockets.map(\.socket.name))
      }
      var taken: [Int: AdoptableSocket] = [:]
      for index in here {
        do {
          taken[index] = try AdoptableSocket(sockets[index].socket.number, as: .listener)
        } catch {
          // Without a name it is passed over: somebody else may ask for it.
          if name != nil { throw error }
        }
      }
      for index in taken.keys { sockets[index].isHere = false }
      return here.compactMap { taken[$0] }
    }
  }

  /// Reads the environment. Nothing is touched if it names what is not open.
  private func begin() throws(SocketError) -> [(socket: SocketActivation.Passed, isHere: Bool)] {
    let sockets = try read().sockets
    do throws(SystemError) {
      for socket in sockets { _ = try FileKind(of: socket.number) }
      for socket in sockets { try BorrowedDescriptor(socket.number).closeOnExec() }
    } catch {
      throw SocketError(
        .invalidArgument, operation: "socket activation",
        detail: "LISTEN_FDS is \(sockets.count), but so many descriptors are not open", errno: error.errno)
    }
    return sockets.map { ($0, true) }
  }

  private static func missing(_ name: String, wasTaken: Bool, among names: [String]) -> SocketError {
    let name = AddressError.quote(name)
    if wasTaken { return .invalid("socket activation", "the socket named \(name) was taken before") }
    let list = Set(names).sorted().prefix(10).map { AddressError.quote($0) }.joined(separator: ", ")
    return .invalid("socket activation", "no socket named \(name) was passed, only \(list)")
  }
}
