internal import SocketSystem

// Sockets that a parent process, such as systemd, created and passed to this process when it started: sd_listen_fds(3).
//
// - The sockets are descriptors 3, 4 and so on. LISTEN_FDS gives their number, LISTEN_FDNAMES their names, and LISTEN_PID the
//   process that they are for. A child process inherits the variables but has another process ID, so it ignores them. Therefore
//   they need not be removed. They also cannot be removed safely, because unsetenv(3) may run while another thread calls
//   getenv(3).
// - The first call reads the environment. A later call reads it again only if this has failed. A program that changes its own environment
//   with setenv(3) must do so before the first call, or before it starts threads.
// - At that call all descriptors get close-on-exec, as with sd_listen_fds(3), because a child does not need them. A program
//   that replaces itself with execve(2) keeps its process ID, so it must remove these variables from the environment that it
//   passes on.
// - Each descriptor is given out once, to a call that takes sockets of its kind: listeners or datagram sockets. A descriptor that no call
//   takes, for example a connection, is not changed further.

struct SocketActivation: Equatable {
  struct Passed: Equatable {
    let number: Int32
    let name: String
  }

  /// Empty if the process was not activated, or if the variables are for another process.
  let sockets: [Passed]

  /// A larger number is treated as an error, before any memory is allocated for it.
  static let maximumCount = 4096

  /// `first` is always 3, except in tests. Throws `.invalidArgument` if the variables are malformed or contradict each other.
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
      names = text.parts(at: ":")
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

final class ActivatedSockets: Sendable {
  static let ofThisProcess = ActivatedSockets {
    () throws(SocketError) in
    try SocketActivation(processID: CurrentProcess.id, variable: CurrentProcess.variable)
  }

  private let read: @Sendable () throws(SocketError) -> SocketActivation
  /// Whether each socket is still to be given out; `nil` until the environment was read.
  private let passed = Locked<[(socket: SocketActivation.Passed, isHere: Bool)]?>(nil)

  /// `read` is called at the first `take`, and again only after it has failed.
  init(_ read: @escaping @Sendable () throws(SocketError) -> SocketActivation) { self.read = read }

  /// Gives out the sockets with this name, or all for this role that were not given out yet. Empty if the process was not activated.
  /// `prepare` is called with each socket before any of them is given out.
  ///
  /// systemd gives all sockets of a unit the same name. So sockets for the other role are skipped. Throws `.invalidArgument` if no socket
  /// has this name, if no socket with this name fits the role, or if one of them fits no role. If this or `prepare` throws, no socket is
  /// given out.
  func take(
    named name: String?, as role: AdoptableSocket.Role, _ prepare: (AdoptableSocket) throws -> Void = { _ in }
  ) throws -> [AdoptableSocket] {
    try passed.withLock { passed in
      var sockets = try passed ?? begin()
      defer { passed = sockets }
      if sockets.isEmpty { return [] }
      let wanted = sockets.indices.filter { index in
        name.map { sockets[index].socket.name.utf8.elementsEqual($0.utf8) } ?? true
      }
      let here = wanted.filter { sockets[$0].isHere }
      if let name, here.isEmpty {
        throw Self.missing(name, wasTaken: !wanted.isEmpty, among: sockets.map(\.socket.name))
      }
      var taken: [Int: AdoptableSocket] = [:]
      var misfit: SocketError?
      for index in here {
        do throws(SocketError) {
          taken[index] = try AdoptableSocket(sockets[index].socket.number, as: role, for: .activated)
        } catch {
          let isForOther = (try? AdoptableSocket(sockets[index].socket.number, as: role.other)) != nil
          if name != nil, !isForOther { throw error }
          misfit = misfit ?? error
        }
      }
      if name != nil, taken.isEmpty, let misfit { throw misfit }
      for index in here { if let socket = taken[index] { try prepare(socket) } }
      for index in taken.keys { sockets[index].isHere = false }
      return here.compactMap { taken[$0] }
    }
  }

  /// If the environment names a descriptor that is not open, no descriptor is changed.
  private func begin() throws(SocketError) -> [(socket: SocketActivation.Passed, isHere: Bool)] {
    let sockets = try read().sockets
    do throws(SystemError) {
      for socket in sockets { _ = try FileKind(of: socket.number) }
      for socket in sockets { try BorrowedDescriptor(socket.number).closeOnExec() }
    } catch {
      throw SocketError(
        .invalidArgument, operation: "socket activation",
        detail: "LISTEN_FDS is \(sockets.count), but fewer descriptors are open", errno: error.errno)
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
