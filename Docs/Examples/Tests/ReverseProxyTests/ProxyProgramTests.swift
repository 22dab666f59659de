import ActorSocketsTLS
import ExampleSupport
import Foundation
import Testing

@testable import ReverseProxy

/// The program itself: signals, restarts and memory.
@Suite struct ProxyProgramTests {
  /// Starts the program with an origin for the sites `one.test` and `localhost`.
  private static func start(
    _ origin: TestOrigin, in folder: Folder, _ authority: Authority
  ) async throws -> (program: Program, client: Client) {
    let settings =
      "listen 127.0.0.1:0\n" + authority.settings("one.test", [origin]) + authority.settings("localhost", [origin])
    try folder.write("settings", settings.utf8)
    let program = try Program(.reverseProxy, [folder.file("settings")])
    try await program.waitForOutput("\n")
    let line = try #require(await program.output.text.firstMatch(of: /listening on (\S+)/))
    return (program, Client(authority: authority, address: try SocketAddress(parsing: String(line.1))))
  }

  @Test(.needs(.reverseProxy), .needs(.openssl)) func `SIGHUP renews the certificates, and connections stay open`()
    async throws
  {
    try await within("the new certificate is there") {
      // An authority of its own, because its files change.
      let authority = try await Authority()
      let (program, client) = try await Self.start(.saying("hello"), in: Folder(), authority)
      let first = try await client.connect()
      let old = try await first.session.peerCertificate
      try authority.folder.write("one.test.key", "no key".utf8)
      await program.kill(SIGHUP)
      try await program.waitForOutput("the old certificates stay: ")
      try await authority.issue("one.test", as: "one.test")
      await program.kill(SIGHUP)
      try await program.waitForOutput("the certificates were read again")
      let second = try await client.connect()
      #expect(try await second.session.peerCertificate != old)
      for connection in [first, second] {
        try await connection.write(utf8: "GET / HTTP/1.1\r\nHost: one.test\r\nConnection: close\r\n\r\n")
        #expect(try await connection.read(until: "hello").starts(with: "HTTP/1.1 200 OK\r\n".utf8))
        await connection.close()
      }
      await program.stop()
    }
  }

  @Test(.needs(.reverseProxy)) func `SIGTERM lets answers finish, and ends connections that wait`() async throws {
    try await within("the program ends") {
      let size = 64 << 20
      let origin = try TestOrigin { connection, head in
        let length = head.hasPrefix("GET /large ") ? size : 5
        try await connection.write(utf8: "HTTP/1.1 200 OK\r\nContent-Length: \(length)\r\n\r\n")
        for _ in 0..<length >> 20 { try await connection.write([UInt8](repeating: 7, count: 1 << 20)) }
        if length == 5 { try await connection.write(utf8: "hello") }
        return true
      }
      let (program, client) = try await Self.start(origin, in: Folder(), Authority.shared.value)
      let request = "GET / HTTP/1.1\r\nHost: one.test\r\n\r\n"
      let (idle, busy, download) = (try await client.connect(), try await client.connect(), try await client.connect())
      for connection in [idle, busy] {
        try await connection.write(utf8: request)
        _ = try await connection.read(until: "hello")
      }
      try await download.write(utf8: "GET /large HTTP/1.1\r\nHost: one.test\r\n\r\n")
      _ = try await download.read(until: "\r\n\r\n")
      await program.kill(SIGTERM)
      // The listener closes first. Requests on connections that are open are still answered, for the last time.
      while let connection = try? await client.connect() { await connection.close() }
      try await busy.write(utf8: request)
      let last = String(decoding: try await busy.read(until: "hello"), as: UTF8.self)
      #expect(last.contains("\r\nConnection: close\r\n"))
      try await download.discard(exactly: size)
      for connection in [busy, idle, download] {
        #expect(try await connection.read() == nil)
        await connection.close()
      }
      #expect(try await program.exitStatus() == 0)
      #expect(await program.output.whole.contains(", 0 of them aborted"))
    }
  }

  @Test(.needs(.reverseProxy), .needs(.bash), .needs(.wrk), .needs(.curl))
  func `No request fails when a new process takes over the socket`() async throws {
    try await within("the load has ended") {
      let authority = try await Authority.shared.value
      let origin = try TestOrigin.saying("hello\n")
      let folder = try Folder()
      try folder.write(
        "settings", (authority.settings("one.test", [origin]) + authority.settings("localhost", [origin])).utf8)
      // The test has the role of systemd: it listens, and each process inherits the socket.
      let socket = try ListeningSocket()
      let client = Client(authority: authority, address: .ipv4(.loopback, port: socket.port))
      func start() async throws -> Program {
        let program = try Program(
          .bash,
          [
            "-c", "exec 3<&\(socket.descriptor); LISTEN_PID=$$ LISTEN_FDS=1 exec \"$0\" \"$1\"",
            Tool.reverseProxy.url.path, folder.file("settings"),
          ])
        try await program.waitForOutput("listening on 127.0.0.1:\(socket.port)\n")
        return program
      }
      var program = try await start()
      let wrk = try Program(
        .wrk, ["--connections", "8", "--threads", "1", "--duration", "8s", client.url(site: "localhost")])
      let options = client.options + ["-H", "Connection: close"] + (0..<300).map { client.url("/\($0)") }
      let curl = try Program(.curl, options)
      try await program.waitForOutput("one.test/20 200")
      try await program.waitForOutput("localhost/ 200")
      for number in 1...2 {
        let next = try await start()
        await program.kill(SIGTERM)
        #expect(try await program.exitStatus() == 0)
        #expect(await program.output.whole.contains(", 0 of them aborted"), "process \(number)")
        program = next
        try await program.waitForOutput("localhost/ 200")
      }
      let (status, errors) = (try await curl.exitStatus(), await curl.errors.whole)
      #expect(status == 0, "\(errors)")
      #expect(await curl.output.whole == String(repeating: "hello\n", count: 300))
      #expect(try await wrk.exitStatus() == 0)
      let report = await wrk.output.whole
      #expect(!report.contains("Non-2xx") && !report.contains("Socket errors"), "\(report)")
      await program.stop()
    }
  }

  @Test(.needs(.reverseProxy), .needs(.curl)) func `A slow client does not fill the memory`() async throws {
    try await within("curl has its answer", seconds: 120) {
      let size = 192 << 20
      let origin = try TestOrigin { connection, head in
        if head.hasPrefix("PUT ") {
          try await connection.discard(exactly: size)
          try await connection.write(utf8: "HTTP/1.1 200 OK\r\nContent-Length: 4\r\n\r\ndone")
        } else {
          try await connection.write(utf8: "HTTP/1.0 200 OK\r\n\r\n")
          for _ in 0..<size >> 20 { try await connection.write([UInt8](repeating: 7, count: 1 << 20)) }
        }
        return false
      }
      let folder = try Folder()
      let (program, client) = try await Self.start(origin, in: folder, Authority.shared.value)
      let count = try await client.curl(
        "--limit-rate", "80M", "--output", "/dev/null", "--write-out", "%{size_download}", client.url())
      #expect(count == "\(size)")
      try folder.write("large", [UInt8](repeating: 7, count: size))
      #expect(try await client.curl("-H", "Expect:", "-T", folder.file("large"), client.url("/up")) == "done")
      let status = try String(contentsOfFile: "/proc/\(program.processIdentifier)/status", encoding: .utf8)
      let peak = try #require(status.firstMatch(of: /VmHWM:\s+(\d+) kB/).flatMap { Int($0.1) })
      #expect(peak < 100_000, "at most \(peak) KiB at a time")
      await program.stop()
    }
  }
}

/// A socket that listens on 127.0.0.1, and that child processes inherit.
final class ListeningSocket: Sendable {
  let descriptor: Int32
  let port: UInt16

  init() throws {
    let socket = Glibc.socket(AF_INET, Int32(SOCK_STREAM.rawValue), 0)
    var address = sockaddr_in()
    address.sin_family = sa_family_t(AF_INET)
    address.sin_addr.s_addr = UInt32(0x7F00_0001).bigEndian
    var length = socklen_t(MemoryLayout<sockaddr_in>.size)
    let status = withUnsafeMutablePointer(to: &address) {
      $0.withMemoryRebound(to: sockaddr.self, capacity: 1) { pointer in
        bind(socket, pointer, length) == 0 && listen(socket, 4096) == 0
          && getsockname(socket, pointer, &length) == 0
      }
    }
    guard status else { throw Overdue(description: "cannot listen: \(String(cString: strerror(errno)))") }
    descriptor = socket
    port = UInt16(bigEndian: address.sin_port)
  }

  deinit { close(descriptor) }
}
