import ActorSockets
import ExampleSupport
import Foundation
import Testing

@testable import FileServer

@Suite struct FileServerTests {
  @Test(.needs(.curl)) func `curl gets files, their heads, and pages of folders`() async throws {
    try await within("curl has its files") {
      let server = try RunningServer()
      #expect(try await server.curl(server.url("/hello.txt")) == "hello\n")
      #expect(try await server.curl(server.url("/")) == "<p>home\n")
      #expect(try await server.curl(server.url("/sub%20folder/")) == "<p>sub\n")
      #expect(try await server.curl("--location", server.url("/sub%20folder")) == "<p>sub\n")
      #expect(try await server.curl(server.url("/./hello.txt?version=2")) == "hello\n")
      let head = try await server.curl("--head", server.url("/hello.txt"))
      #expect(head.hasPrefix("HTTP/1.1 200 OK\r\n"))
      #expect(
        head.contains("\r\nContent-Length: 6\r\n") && head.contains("\r\nContent-Type: text/plain; charset=utf-8\r\n"))
      _ = try await server.curl("--output", server.folder.file("copy"), server.url("/large.bin"))
      #expect(try server.folder.read("copy") == RunningServer.large)
      _ = try await server.stop()
    }
  }

  @Test(.needs(.curl)) func `curl gets parts of a file, and continues a download`() async throws {
    try await within("curl has its parts") {
      let server = try RunningServer()
      #expect(try await server.curl("--range", "1-3", server.url("/hello.txt")) == "ell")
      #expect(try await server.curl("--range", "4-", server.url("/hello.txt")) == "o\n")
      #expect(try await server.curl("--range", "-2", server.url("/hello.txt")) == "o\n")
      #expect(try await server.status("/hello.txt", "--range", "2-2") == "206")
      #expect(try await server.status("/hello.txt", "--range", "6-") == "416")
      try server.folder.write("copy", RunningServer.large.prefix(1_234_567))
      _ = try await server.curl("--continue-at", "-", "--output", server.folder.file("copy"), server.url("/large.bin"))
      #expect(try server.folder.read("copy") == RunningServer.large)
      _ = try await server.stop()
    }
  }

  @Test(.needs(.curl)) func `A file that the client has is not sent again`() async throws {
    try await within("curl knows") {
      let server = try RunningServer()
      let tags = server.folder.file("etag")
      #expect(try await server.curl("--etag-save", tags, server.url("/hello.txt")) == "hello\n")
      #expect(try await server.status("/hello.txt", "--etag-compare", tags) == "304")
      // A part of another version is of no use.
      let tag = String(decoding: try server.folder.read("etag"), as: UTF8.self).trimmingCharacters(in: .newlines)
      #expect(try await server.curl("-H", "If-Range: \(tag)", "--range", "0-1", server.url("/hello.txt")) == "he")
      try server.folder.write("site/hello.txt", "changed\n".utf8)
      #expect(
        try await server.curl("-H", "If-Range: \(tag)", "--range", "0-1", server.url("/hello.txt")) == "changed\n")
      #expect(try await server.status("/hello.txt", "--etag-compare", tags) == "200")
      _ = try await server.stop()
    }
  }

  @Test(.needs(.curl)) func `Missing and forbidden files and invalid requests get their status`() async throws {
    try await within("curl has its statuses") {
      let server = try RunningServer()
      let files = FileManager.default
      try files.createSymbolicLink(atPath: server.folder.file("site/link"), withDestinationPath: "../secret.txt")
      try files.createSymbolicLink(atPath: server.folder.file("site/good"), withDestinationPath: "hello.txt")
      #expect(try await server.status("/good") == "200")
      let refused = [
        "/nothing": "404", "/hello.txt/": "404", "/hello.txt/below": "404", "/empty/": "403", "/link": "403",
        "/../secret.txt": "403", "/sub%20folder/%2e%2e/hello.txt": "403", "/%2e%2e/secret.txt": "403",
        "/..%2fsecret.txt": "400", "/hello.txt%00": "400", "/%zz": "400", "/%ff": "400", "/empty": "301",
      ]
      for (path, status) in refused { #expect(try await server.status(path) == status, "\(path)") }
      for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
        #expect(try await server.status("/hello.txt", "--request", method) == "405")
      }
      #expect(try await server.status("/hello.txt", "--data", "a body") == "405")
      #expect(try await server.status("/nothing", "--head") == "404")
      _ = try await server.stop()
    }
  }

  @Test(.needs(.curl)) func `A link to a folder that only looks like the site leads out of it`() async throws {
    try await within("curl has its statuses") {
      // The same é, written in two ways: two folders.
      let (server, files) = (try RunningServer(site: "caf\u{E9}"), FileManager.default)
      let neighbour = "cafe\u{301}"
      try server.folder.write("\(neighbour)/secret.txt", "secret\n".utf8)
      #expect(try files.contentsOfDirectory(atPath: server.folder.path).count == 2)
      for (name, target) in [("folder", "../\(neighbour)"), ("file", "../\(neighbour)/secret.txt")] {
        try files.createSymbolicLink(
          atPath: server.folder.file("caf\u{E9}/\(name)"), withDestinationPath: target)
      }
      for path in ["/file", "/folder/secret.txt", "/folder/", "/folder"] {
        #expect(try await server.status(path) == "403", "\(path)")
      }
      // An accent at the beginning of a name hides no slash.
      try server.folder.write("caf\u{E9}/\u{301}accent.txt", "accent\n".utf8)
      #expect(try await server.curl(server.url("/%CC%81accent.txt")) == "accent\n")
      _ = try await server.stop()
    }
  }

  @Test(.needs(.curl)) func `One connection serves many requests`() async throws {
    try await within("curl has its answers") {
      let server = try RunningServer()
      let urls = (0..<50).map { _ in server.url("/hello.txt") }
      let output = try await Program.run(.curl, ["--silent", "--max-time", "20"] + urls)
      #expect(output == String(repeating: "hello\n", count: 50))
      let report = try await server.stop()
      #expect(report.accepted == 1 && report.finished == 1)
    }
  }

  @Test(.needs(.wrk)) func `wrk gets all its answers on the connections that it opened`() async throws {
    try await within("wrk is done") {
      let server = try RunningServer()
      let output = try await Program.run(
        .wrk, ["--connections", "32", "--threads", "1", "--duration", "2s", server.url("/hello.txt")])
      #expect(!output.contains("Non-2xx") && !output.contains("Socket errors"), "\(output)")
      let requests = try #require(output.firstMatch(of: /(\d+) requests in/))
      #expect(try #require(Int(requests.1)) > 32 * 5, "\(output)")
      let report = try await server.stop()
      // wrk itself opens one connection first, to see whether the server is there.
      #expect(report.accepted <= 33 && report.failed == 0)
    }
  }
}
