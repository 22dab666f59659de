import Foundation
import SocketSystem
import Testing

/// A proxy that another program is: microsocks or tinyproxy. It listens on a port of the loopback address.
package struct ProxyProgram: Sendable {
  package enum Kind: String, CaseIterable, Sendable, CustomTestStringConvertible {
    case socks5, http

    package var testDescription: String { rawValue }
  }

  package let program: Program
  package let port: UInt16
  private let folder: Folder

  /// With a name and a password, it demands both.
  package init(_ kind: Kind, login: (name: String, password: String)? = nil) async throws {
    let port = try freePort()
    self.port = port
    folder = try Folder()
    switch kind {
    case .socks5:
      let login = login.map { ["-u", $0.name, "-P", $0.password] } ?? []
      program = try await Program(.microsocks, ["-i", "127.0.0.1", "-p", "\(port)"] + login)
    case .http:
      let login = login.map { "BasicAuth \($0.name) \($0.password)\n" } ?? ""
      let settings = "Port \(port)\nListen 127.0.0.1\nTimeout 60\nMaxClients 50\nAllow 127.0.0.1\n\(login)"
      try Data(settings.utf8).write(to: folder.file("tinyproxy.conf"))
      program = try await Program(.tinyproxy, ["-d", "-c", folder.file("tinyproxy.conf").path])
    }
    try await eventually("the proxy listens", seconds: 20) {
      (try? RawSocket.connected(to: .ipv4(.loopback, port: port))) != nil
    }
  }
}
