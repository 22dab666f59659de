import ActorSockets
import Foundation
import TestSupport
import Testing

@testable import ActorSocketsTLS

/// Bytes in great numbers, to and from OpenSSL's commands: what arrives is what was sent, by its SHA-256.
extension Peers {
  @Suite(.needs(.openssl)) struct TransferTests {
    private static let small = [1, 16_384, 16_385, 1_000_003]
    private static let large = 100_000_000

    @Test(arguments: TLSVersion.both)
    func `A client of ours receives`(version: TLSVersion) async throws {
      let folder = try CertificateFolder()
      let server = try await SServer(["-WWW"], version, in: folder.url)
      let context = try PeerFiles.shared.client()
      for count in Self.small + (version == .v13 ? [Self.large] : []) {
        try await within("\(count) bytes arrive") {
          let bytes = try RandomBytes.make(count)
          try folder.write("file", bytes)
          let connection = try await server.connect(context)
          try await connection.write(utf8: "GET /file HTTP/1.0\r\n\r\n")
          // The server goes on when this side has finished.
          try await connection.finishWriting()
          _ = try await connection.read(until: Delimiter(Array("\r\n\r\n".utf8)))
          let received = try await connection.readToEnd()
          #expect(Digest.sha256(received) == Digest.sha256(bytes), "\(received.count) of \(count) bytes")
          await connection.close()
        }
      }
      await server.stop()
    }

    @Test(arguments: TLSVersion.both)
    func `A client of ours sends`(version: TLSVersion) async throws {
      let folder = try CertificateFolder()
      let files = try PeerFiles.shared
      let context = try files.client()
      for count in Self.small + (version == .v12 ? [Self.large] : []) {
        try await within("\(count) bytes arrive") {
          let bytes = try RandomBytes.make(count)
          let output = folder.url.appending(path: "received")
          let socket = folder("socket")
          // With -quiet its output is what it received, but it does not say where it listens. It does not take long paths.
          let server = try await Program(
            .openssl,
            [
              "s_server", "-quiet", "-naccept", "1", "-unix", "socket", "-cert", files("ecdsa.pem"), "-key",
              files("ecdsa.key"),
            ]
              + SServer.flags(version), input: .pipe, outputTo: output, in: folder.url)
          try await eventually("it listens") { FileManager.default.fileExists(atPath: socket) }
          let connection = try await connected(to: .unix(path: socket), context)
          try await connection.write(bytes)
          await connection.close()
          #expect(try await server.exitStatus() == 0)
          let received = try folder.read("received")
          #expect(Digest.sha256(received) == Digest.sha256(bytes), "\(received.count) of \(count) bytes")
          try? FileManager.default.removeItem(atPath: socket)
        }
      }
    }

    /// The socket's file is there before somebody listens.
    private func connected(to endpoint: Endpoint, _ context: TLSContext) async throws -> TLSConnection {
      var connection: TLSConnection?
      try await eventually("it takes a connection") {
        do {
          connection = try await TLSConnection.connect(to: endpoint, context: context, serverName: "server.test")
          return true
        } catch let error as SocketError where error.code == .connectionRefused {
          return false
        }
      }
      return try #require(connection)
    }

    @Test(arguments: TLSVersion.both)
    func `A server of ours receives`(version: TLSVersion) async throws {
      let folder = try CertificateFolder()
      for count in Self.small + (version == .v12 ? [Self.large] : []) {
        try await within("\(count) bytes arrive") {
          let bytes = try RandomBytes.make(count)
          try folder.write("file", bytes)
          let digests = Notes<[UInt8]>()
          let server = try OurServer(PeerFiles.shared.server()) { connection in
            digests.add(Digest.sha256(try await connection.read(exactly: count)))
            try await connection.write(utf8: "done\n")
          }
          let client = try await SClient.start(
            server, version, input: .file(folder.url.appending(path: "file")))
          try await client.waitForOutput("done\n")
          #expect(digests.all == [Digest.sha256(bytes)])
          await client.kill(SIGTERM)
          try await server.stop()
        }
      }
    }

    @Test(arguments: TLSVersion.both)
    func `A server of ours sends`(version: TLSVersion) async throws {
      let folder = try CertificateFolder()
      let output = folder.url.appending(path: "received")
      for count in Self.small + (version == .v13 ? [Self.large] : []) {
        try await within("\(count) bytes arrive") {
          let bytes = try RandomBytes.make(count)
          let server = try OurServer(PeerFiles.shared.server()) { try await $0.write(bytes) }
          let client = try await SClient.start(server, version, outputTo: output)
          #expect(try await client.exitStatus() == 0)
          let received = try folder.read("received")
          #expect(Digest.sha256(received) == Digest.sha256(bytes), "\(received.count) of \(count) bytes")
          try await server.stop()
        }
      }
    }
  }
}
