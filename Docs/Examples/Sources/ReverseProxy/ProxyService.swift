import ActorSocketsTLS
import ByteText

/// A proxy with everything that runs beside its connections: the checks of the origins, and the renewal of certificates.
struct ProxyService: Sendable {
  let settings: ProxySettings
  let context: TLSContext
  let proxy: ReverseProxy

  init(
    _ settings: ProxySettings, limits: ReverseProxy.Limits = .init(), log: @escaping @Sendable (String) -> Void
  ) throws {
    self.settings = settings
    context = try settings.makeContext()
    var sites: [ByteText: Site] = [:]
    for site in settings.sites { sites[ByteText(site.name)] = Site(site.name, site.origins.map { Origin($0, limits) }) }
    proxy = ReverseProxy(sites: sites, limits: limits, log: log)
  }

  /// The settings for the listeners of ``run(on:reloads:)``.
  var listenerConfiguration: TCPListener.Configuration {
    var configuration = TCPListener.Configuration()
    configuration.connection = proxy.connectionConfiguration
    return configuration
  }

  /// Serves on listeners until they have drained: after SIGTERM or SIGINT.
  ///
  /// - Parameters:
  ///   - listeners: The listeners.
  ///   - reloads: A signal in this sequence renews the certificates.
  /// - Returns: The numbers of connections that were accepted and aborted.
  /// - Throws: The errors of the listeners.
  func run(on listeners: [TCPListener], reloads: ProcessSignals) async throws -> (accepted: Int, aborted: Int) {
    try await withThrowingTaskGroup(of: Void.self) { group in
      for site in settings.sites {
        guard let path = site.check else { continue }
        for origin in proxy.sites[ByteText(site.name)]?.origins ?? [] {
          group.addTask { try await watch(origin, path, of: site.name) }
        }
      }
      group.addTask { for await _ in reloads { renewCertificates() } }
      defer { group.cancelAll() }
      return try await serve(listeners)
    }
  }

  private func serve(_ listeners: [TCPListener]) async throws -> (accepted: Int, aborted: Int) {
    try await withThrowingTaskGroup(of: ServeReport.self) { group in
      for listener in listeners {
        group.addTask {
          // Idle reads do not end, because the proxy itself decides about connections that wait: `ReverseProxy.waitForRequest`.
          try await listener.serve(
            tls: context,
            .init(
              limits: .init(connectionsPerPeer: 1000), drain: .within(.seconds(30), idleReads: .wait),
              stopOn: [.terminate, .interrupt])
          ) { client in
            try await proxy.serve(client, serverName: client.session.serverName ?? "")
          }
        }
      }
      return try await group.reduce((0, 0)) { ($0.0 + $1.accepted, $0.1 + $1.aborted) }
    }
  }

  /// Checks an origin again and again, until the task is cancelled.
  private func watch(_ origin: Origin, _ path: String, of site: String) async throws {
    while true {
      if await origin.check(path, host: site, within: proxy.limits.check) {
        proxy.log("\(site): the origin \(origin.endpoint) is \(origin.isUp ? "up" : "down")")
      }
      try await Task.sleep(for: proxy.limits.checkInterval)
    }
  }

  /// Reads the files with certificates again. Connections that are up keep the old ones.
  private func renewCertificates() {
    do {
      try context.replaceIdentities(identity: nil, identities: settings.readIdentities())
      proxy.log("the certificates were read again")
    } catch {
      proxy.log("the old certificates stay: \(error)")
    }
  }
}
