internal import EpollReactor
public import SocketSystem

/// What finds the addresses of names.
///
/// Connecting asks it for each family by itself, so that a slow answer for one does not hold up the other: RFC 8305. It is
/// not asked for addresses in text. Set it as ``TCPConnection/Configuration/resolver``.
public protocol Resolver: Sendable {
  /// Finds the addresses of a name.
  ///
  /// It is called on Swift's pool of threads, and may take as long as it likes: who asks has a timeout, and goes on
  /// without it. *Cancellation* says that the answer is not needed any more.
  ///
  /// - Parameters:
  ///   - name: The name, at most 253 bytes and no NUL among them.
  ///   - family: The family that the addresses shall belong to; others are ignored.
  /// - Returns: The addresses, the best first. Their ports are ignored.
  /// - Throws: Why there are none: ``SocketError``, `.hostNotFound` if the name has none of this family. Other errors are
  ///   taken for `.resolverFailed`.
  @concurrent func addresses(of name: String, family: AddressFamily) async throws -> [SocketAddress]
}

/// The resolver of the system: getaddrinfo(3).
///
/// It blocks, so it runs on threads of its own, at most eight in the whole process; further look-ups wait for one.
/// Those of one name and family that are under way at the same time are shared.
public struct SystemResolver: Resolver {
  /// The resolver of the system.
  public init() {}

  /// Finds the addresses of a name: getaddrinfo(3).
  ///
  /// An address in text is its own answer, and touches no thread.
  ///
  /// *Cancellation* ends the waiting at once; the look-up goes on by itself, since it cannot be stopped.
  ///
  /// - Parameters:
  ///   - name: The name.
  ///   - family: The family of the addresses.
  /// - Returns: The addresses in the order that RFC 6724 gives them, with port 0.
  /// - Throws: ``SocketError``: `.hostNotFound`, `.resolverFailed`, `.invalidArgument` for what cannot be a name. And
  ///   `CancellationError`.
  @concurrent public func addresses(of name: String, family: AddressFamily) async throws -> [SocketAddress] {
    if let numeric = Endpoint.numeric(name, 0) { return numeric.addressFamily == family ? [numeric] : [] }
    try Endpoint.checkName(name, "look up")
    return try await HostLookups.shared.addresses(of: HostQuery(name: name, family: family))
  }
}

extension Resolver {
  /// Finds the addresses of a name in both families.
  ///
  /// *Cancellation* is passed on to both look-ups.
  ///
  /// - Parameter name: The name.
  /// - Returns: The addresses, those of IPv6 first.
  /// - Throws: Why there are none. If only one of the two look-ups fails, the addresses of the other are returned.
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

  /// The outcome of a look-up, whatever was thrown.
  func outcome(of name: String, family: AddressFamily) async -> Result<[SocketAddress], SocketError> {
    do {
      let found = try await addresses(of: name, family: family)
      if found.isEmpty { return .failure(.notFound(name, "it has no \(family) address")) }
      return .success(found)
    } catch let error as SocketError {
      return .failure(error)
    } catch {
      // The text of a foreign error may hold anything.
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
