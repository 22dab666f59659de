import ActorSockets

/// The options that `sockcat connect` and `sockcat proxy` share.
struct ConnectingOptions: Equatable {
  /// For connecting with all tries.
  var timeout: Duration?
  var proxy: Proxy?
  var tries: Int?

  static let options: [Option<ConnectingOptions>] = [
    Option(
      "--timeout", .seconds,
      "gives up connecting after S seconds, 30 by default, however many tries there were"
    ) { $0.timeout = try $1.seconds() },
    Option(
      "--retry", .number,
      """
      tries up to N times to connect, with a random delay before each repetition that grows to 10 seconds. A try \
      may take 10 seconds, all together what --timeout allows
      """
    ) { $0.tries = try $1.count() },
    Option(
      "--proxy", .named("URL"),
      """
      connects through a SOCKS 5 or HTTP proxy, which looks up the name: socks5://host:port or http://host:port. \
      With user@ before the host, the password is read from the environment variable \(ProxyURL.passwordVariable); \
      user:password@ shows it to other users of this machine. %XX stands for a byte
      """
    ) { $0.proxy = try ProxyURL.proxy($1.text) },
  ]

  func check(connectingTo endpoint: Endpoint) throws(Failure) {
    if proxy != nil, endpoint.isUnix { throw .usage("a proxy cannot connect to \(endpoint)") }
  }

  /// Applies all options except the timeout.
  func apply(to configuration: inout TCPConnection.Configuration) {
    configuration.proxy = proxy
    guard let tries else { return }
    var retry = TCPConnection.Retry()
    retry.maximumTries = tries
    configuration.retry = retry
  }
}
