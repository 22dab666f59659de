import ActorSockets
import ActorSocketsTLS
import ExampleSupport
import Synchronization

// Conversations over loopback, for observers to observe. Each has a reactor of its own.

/// The numbers of the two connections of a conversation, and how the client's ended.
struct Conversation: Sendable {
  let client: UInt64
  let server: UInt64
  let port: UInt16
  let report: CloseReport
}

/// A client with the label `client` and a server send each other a line, and close. The observer has heard of everything on return.
func talk(observedBy observer: any ReactorObserver) async throws -> Conversation {
  try await within("both sides have closed") {
    let (reactor, listener) = try makeListener(observer)
    let client = try await TCPConnection.connect(to: .address(listener.localAddresses[0]), reactor: reactor)
    client.label = "client"
    let server = try await listener.accept()
    try await client.write(utf8: "hello\n")
    _ = try await server.read(.line())
    try await server.write(utf8: "bye\n")
    _ = try await client.read(.line())
    async let closing: Void = client.close()
    _ = try await server.read()
    await server.close()
    await closing
    let (report, _) = (try await client.closed, try await server.closed)
    return Conversation(
      client: client.id, server: server.id, port: listener.localAddresses[0].port ?? 0, report: report)
  }
}

/// A client connects, and the server resets the connection. The observer has heard of it on return.
func beReset(observedBy observer: any ReactorObserver) async throws -> Conversation {
  try await within("the client is reset") {
    let (reactor, listener) = try makeListener(observer)
    let client = try await TCPConnection.connect(to: .address(listener.localAddresses[0]), reactor: reactor)
    let server = try await listener.accept()
    await server.abort()
    _ = try? await client.read()
    let (report, _) = (try await client.closed, try await server.closed)
    return Conversation(
      client: client.id, server: server.id, port: listener.localAddresses[0].port ?? 0, report: report)
  }
}

/// A client and a server encrypt connections one after the other, and close them. The second one resumes the session of the first. The
/// observer has heard of them on return.
func encrypt(_ count: Int = 1, observedBy observer: any ReactorObserver, trusting isTrusted: Bool = true) async throws {
  try await within("the handshake is done or has failed") {
    let (reactor, listener) = try makeListener(observer)
    let identity = try TLSIdentity.selfSigned(for: ["127.0.0.1"])
    let serverContext = try TLSContext(TLSConfiguration(identity: identity, applicationProtocols: ["echo/1"]))
    let roots: [TLSTrustRoots] = isTrusted ? [.certificates([identity.certificate])] : [.system]
    let clientContext = try TLSContext(TLSConfiguration(trustRoots: roots, applicationProtocols: ["echo/1"]))
    let serving = Task {
      try await listener.serve(tls: serverContext, .init(onFailure: { _ in })) { connection in
        try await connection.write([1])
        _ = try await connection.read()
      }
    }
    do {
      for _ in 0..<count {
        let client = try await TLSConnection.connect(
          to: .address(listener.localAddresses[0]), context: clientContext, reactor: reactor)
        // The session arrives before the byte.
        _ = try await client.read(exactly: 1)
        await client.close()
        _ = try await client.closed
      }
    } catch  where !isTrusted {
      // The observer gets this error.
    }
    await listener.drain(within: .seconds(10))
    _ = try await serving.value
  }
}

/// A connection is refused. The observer has heard of it on return.
///
/// - Parameters:
///   - observer: The observer.
///   - tries: How often connecting is tried.
/// - Throws: ``Overdue`` if it is not refused.
func beRefused(observedBy observer: any ReactorObserver, tries: Int = 1) async throws {
  try await within("connecting fails") {
    let (reactor, listener) = try makeListener(observer)
    var configuration = TCPConnection.Configuration()
    configuration.retry = TCPConnection.Retry()
    configuration.retry?.maximumTries = tries
    configuration.retry?.firstDelay = .zero
    let address = listener.localAddresses[0]
    await listener.close()
    do {
      _ = try await TCPConnection.connect(to: .address(address), configuration: configuration, reactor: reactor)
    } catch SocketError.Code.connectionRefused {
      return
    }
    throw Overdue(description: "connecting to a port that no socket listens on did not fail")
  }
}

/// A handler throws an error. The observer has heard of it on return.
func fail(with error: any Error, observedBy observer: any ReactorObserver) async throws {
  try await within("the handler has failed") {
    let (reactor, listener) = try makeListener(observer)
    let serving = Task {
      try await listener.serve(.init(onFailure: { _ in })) { connection in
        _ = try await connection.read()
        throw error
      }
    }
    let client = try await TCPConnection.connect(to: .address(listener.localAddresses[0]), reactor: reactor)
    try await client.write([1])
    _ = try? await client.read()
    _ = try await client.closed
    await listener.drain(within: .seconds(10))
    _ = try await serving.value
  }
}

private func makeListener(_ observer: any ReactorObserver) throws -> (Reactor, TCPListener) {
  let reactor = Reactor()
  reactor.observer = observer
  return (reactor, try TCPListener.bind(to: .address(.ipv4(.loopback, port: 0)), reactor: reactor))
}

/// An error of a handler.
struct Mishap: Error, CustomStringConvertible {
  let description = "a mishap"
}

/// Notes what it hears of.
final class Witness: ReactorObserver {
  private let all = Mutex<[String]>([])
  private let connection = Mutex<ObservedConnection?>(nil)
  let lagThreshold: Duration

  init(lagThreshold: Duration = .seconds(3600)) { self.lagThreshold = lagThreshold }

  var notes: [String] { all.withLock { $0 } }
  /// The last connection that it heard of.
  var lastConnection: ObservedConnection? { connection.withLock { $0 } }

  private func note(_ text: String, _ connection: ObservedConnection?) {
    all.withLock { $0.append(text) }
    if let connection { self.connection.withLock { $0 = connection } }
  }

  func connected(_ connection: ObservedConnection) { note("connected", connection) }
  func accepted(_ connection: ObservedConnection) { note("accepted", connection) }
  func connectFailed(_ connection: ObservedConnection, _ error: SocketError) { note("connectFailed", connection) }
  func connectWillRetry(_ connection: ObservedConnection, _ error: SocketError, after delay: Duration) {
    note("connectWillRetry", connection)
  }
  func closed(_ connection: ObservedConnection, _ report: CloseReport) { note("closed", connection) }
  func handshakeDone(_ connection: ObservedConnection, _ handshake: ObservedHandshake) {
    note("handshakeDone", connection)
  }
  func handshakeFailed(_ connection: ObservedConnection, _ error: any Error) { note("handshakeFailed", connection) }
  func handlerFailed(_ connection: ObservedConnection, _ error: any Error) { note("handlerFailed", connection) }
  func datagramsDropped(_ count: UInt64, at endpoint: ObservedConnection) { note("datagramsDropped", endpoint) }
  func lagged(_ lag: Duration) { note("lagged", nil) }
}
