import ActorSockets

/// Reads the versions of many SSH servers: RFC 4253, section 4.2.
package struct BannerGrabber: Sendable {
  package struct Finding: Sendable {
    package let host: Endpoint
    /// What the server says about itself, for example `SSH-2.0-OpenSSH_9.6`, or why it says nothing.
    package let banner: Result<String, any Error>
  }

  struct NotSSH: Error, CustomStringConvertible {
    var description: String { "the server does not speak SSH" }
  }

  /// How many servers are asked at a time.
  package var atATime = 100
  /// How long one server may take, with connecting.
  package var timeLimit: Duration = .seconds(5)

  package init() {}

  /// Asks all hosts, and tells of each as soon as it has answered or failed.
  package func run(_ hosts: some Sequence<Endpoint>, found: (Finding) -> Void) async {
    await withTaskGroup(of: Finding.self) { group in
      for (index, host) in hosts.enumerated() {
        if index >= atATime, let finding = await group.next() { found(finding) }
        group.addTask { await finding(host) }
      }
      for await finding in group { found(finding) }
    }
  }

  private func finding(_ host: Endpoint) async -> Finding {
    do {
      return Finding(host: host, banner: .success(try await banner(of: host)))
    } catch {
      return Finding(host: host, banner: .failure(error))
    }
  }

  private func banner(of host: Endpoint) async throws -> String {
    let end = Timeout.until(.now + timeLimit)
    return try await TCPConnection.withConnection(to: host, timeout: end) { connection in
      // A server may send other lines first. A version has at most 255 bytes.
      for try await line in connection.messages(until: .lf, maximumLength: 255, timeout: end).prefix(50)
      where line.starts(with: "SSH-".utf8) {
        return String(decoding: line.filter { 32..<127 ~= $0 }, as: UTF8.self)
      }
      throw NotSSH()
    }
  }
}
