import ActorSockets

/// A configuration that a test writes as a change of the defaults.
protocol ChangedConfiguration { init() }

extension ChangedConfiguration {
  init(_ change: (inout Self) throws -> Void) rethrows {
    self.init()
    try change(&self)
  }
}

extension TCPConnection.Configuration: ChangedConfiguration {}
extension TCPListener.Configuration: ChangedConfiguration {}
extension UDPEndpoint.Configuration: ChangedConfiguration {}
