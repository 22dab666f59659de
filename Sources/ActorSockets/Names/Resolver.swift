internal import EpollReactor
public import SocketSystem

/// Looks up the addresses of names.
///
/// Connecting calls it for each address family separately, so that a slow answer for one family does not delay the other: RFC
/// 8305. It is not called for addresses given as text, nor for `localhost`: see ``Endpoint/host(_:port:)``. Set it as
/// ``TCPConnection/Configuration/resolver`` or ``UDPEndpoint/Configuration/resolver``.
public protocol Resolver: Sendable {
  /// Looks up the addresses of a name.
  ///
  /// It is called on Swift's pool of threads, with the task-local values of the code that asked for the connection or sends the
  /// datagram. It has no time limit of its own: the caller has a timeout, and stops waiting when it expires.
  ///
  /// *Cancellation* means that the answer is no longer needed.
  ///
  /// - Parameters:
  ///   - name: The name, at most 253 bytes and a final dot, without NUL.
  ///   - family: The family of the addresses. Addresses of another family are ignored.
  /// - Returns: The addresses, the preferred one first. Their ports are ignored.
  /// - Throws: ``SocketError`` with the code `.hostNotFound` if the name has no address of this family. Any other error is
  ///   treated as `.resolverFailed`.
  @concurrent func addresses(of name: String, family: AddressFamily) async throws -> [SocketAddress]
}

/// The resolver of the system: getaddrinfo(3).
///
/// A name that this machine knows by itself needs no network and no thread: an address as text, a name of the loopback addresses, and a
/// name in /etc/hosts, hosts(5). That file decides for both families. It is read at each look-up, unless nsswitch.conf(5) puts another
/// source first.
///
/// getaddrinfo(3) blocks for as long as a name server does not answer, so each look-up runs on a thread of its own. Simultaneous look-ups
/// of the same name and family are shared. Look-ups that take long do not hold up others: their number has a limit in the whole process
/// and for each domain, see <doc:Limits>.
public struct SystemResolver: Resolver {
  /// Replaces the machine's files and threads in tests.
  private final class Parts: Sendable {
    let hosts: HostsFile
    let lookUps: HostLookups

    init(_ hosts: HostsFile, _ lookUps: HostLookups) {
      self.hosts = hosts
      self.lookUps = lookUps
    }
  }

  private static let hosts = HostsFile()
  private let parts: Parts?

  /// Creates the resolver.
  public init() { parts = nil }

  init(_ hosts: HostsFile, _ lookUps: HostLookups) { parts = Parts(hosts, lookUps) }

  /// Looks up the addresses of a name: getaddrinfo(3).
  ///
  /// *Cancellation* ends the wait at once. The look-up continues in the background, because it cannot be stopped.
  ///
  /// - Parameters:
  ///   - name: The name.
  ///   - family: The family of the addresses.
  /// - Returns: The addresses in the order of RFC 6724, or of /etc/hosts, with port 0; an empty array if the name is an address of the
  ///   other family as text, or if /etc/hosts has it in the other family only.
  /// - Throws: ``SocketError``: `.hostNotFound`, `.resolverFailed`, `.invalidArgument` if the text cannot be a name;
  ///   `CancellationError` when the task is cancelled.
  @concurrent public func addresses(of name: String, family: AddressFamily) async throws -> [SocketAddress] {
    switch HostName(name) {
    case .address(let address): return address.isIPv4 == (family == .ipv4) ? [address.socketAddress(port: 0)] : []
    case .loopback: return [HostName.loopback(family)]
    case .name: break
    case .empty: throw SocketError.invalid("look up", "an empty text is not a host's name")
    case .badAddress(let problem), .badName(let problem): throw SocketError.invalid("look up", problem)
    }
    let query = HostQuery(name: name, family: family)
    if !CurrentSystem.calls.mayWaitForThreads { return try HostLookups.lookUp(query).get() }
    if let known = (parts?.hosts ?? Self.hosts).addresses(of: name) {
      return known.filter { $0.addressFamily == family }
    }
    return try await (parts?.lookUps ?? .shared).addresses(of: query)
  }
}

extension Resolver {
  /// Looks up the addresses of a name in both families.
  ///
  /// *Cancellation* is passed on to both look-ups.
  ///
  /// - Parameter name: The name.
  /// - Returns: The addresses, IPv6 first.
  /// - Throws: The error of a look-up if no address was found. If only one of the two look-ups fails, the addresses of the
  ///   other are returned.
  @concurrent public func addresses(of name: String) async throws -> [SocketAddress] {
    async let ipv6 = addresses(of: name, family: .ipv6)
    async let ipv4 = addresses(of: name, family: .ipv4)
    var found: [SocketAddress] = []
    var failure: (any Error)?
    do { found += try await ipv6 } catch { failure = error }
    do { found += try await ipv4 } catch {
      failure = (failure as? SocketError)?.code == .resolverFailed ? failure : error
    }
    try Task.checkCancellation()
    if found.isEmpty, let failure { throw failure }
    return found
  }

  /// Passes each outcome on as soon as it is known.
  func lookUp(
    _ name: String, in families: [AddressFamily],
    _ done: @escaping @Sendable (AddressFamily, HostLookups.Outcome) -> Void
  ) async {
    await withTaskGroup { group in
      for family in families { group.addTask { done(family, await outcome(of: name, family: family)) } }
    }
  }

  func outcome(of name: String, family: AddressFamily) async -> Result<[SocketAddress], SocketError> {
    do {
      let found = try await addresses(of: name, family: family)
      if found.isEmpty { return .failure(.notFound(name, "it has no \(family) address")) }
      return .success(found)
    } catch let error as SocketError {
      return .failure(error)
    } catch {
      // The text of an unknown error may contain any characters.
      let text = AddressError.quote("\(error)")
      return .failure(
        SocketError(.resolverFailed, operation: "look up", detail: "\(AddressError.quote(name)): \(text)"))
    }
  }
}

extension SocketError {
  static func notFound(_ name: String, _ detail: String) -> SocketError {
    SocketError(.hostNotFound, operation: "look up", detail: "\(AddressError.quote(name)) has no address: \(detail)")
  }
}
