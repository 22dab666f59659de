import ActorSockets
import ActorSocketsTLS
import Foundation
import TestSupport
import Testing

extension Peers {
  @Suite struct StartTLSTests {
    // MARK: IMAP

    /// What the settings of dovecot 2.4 are called, and what they were before.
    private func settings(in folder: CertificateFolder, _ files: PeerFiles) async throws -> [String] {
      let program = try await Program(.dovecot, ["--version"])
      _ = try await program.exitStatus()
      let version = await program.output.whole
      let users = folder("users")
      if version.hasPrefix("2.3") {
        return [
          "", "mail_location = maildir:\(folder("mail"))", "ssl_cert = <\(files("rsa.pem"))",
          "ssl_key = <\(files("rsa.key"))", "disable_plaintext_auth = yes",
          "passdb {\n driver = passwd-file\n args = \(users)\n}",
          "userdb {\n driver = passwd-file\n args = \(users)\n}",
        ]
      }
      return [
        "dovecot_config_version = 2.4.0\ndovecot_storage_version = 2.4.0",
        "mail_driver = maildir\nmail_path = \(folder("mail"))", "ssl_server_cert_file = \(files("rsa.pem"))",
        "ssl_server_key_file = \(files("rsa.key"))", "auth_allow_cleartext = no",
        "passdb passwd-file {\n passwd_file_path = \(users)\n}",
        "userdb passwd-file {\n passwd_file_path = \(users)\n}",
      ]
    }

    /// dovecot as an IMAP server of its own, with one user.
    private func dovecot(in folder: CertificateFolder, port: UInt16) async throws -> Program {
      let files = try PeerFiles.shared
      let isRoot = getuid() == 0
      let user = NSUserName()
      try folder.write(
        "users", "me:{PLAIN}secret:\(isRoot ? "65534:65534" : "\(getuid()):\(getgid())")::\(folder("mail"))::\n")
      let settings = try await settings(in: folder, files)
      try folder.write(
        "dovecot.conf",
        """
        \(settings[0])
        base_dir = \(folder("run"))
        state_dir = \(folder("run"))
        log_path = /dev/stderr
        protocols = imap
        listen = 127.0.0.1
        default_login_user = \(isRoot ? "nobody" : user)
        default_internal_user = \(isRoot ? "nobody" : user)
        default_internal_group = \(isRoot ? "nogroup" : user)
        first_valid_uid = 1
        ssl = required
        service imap-login {
          chroot =
          inet_listener imap {
            port = \(port)
          }
          inet_listener imaps {
            port = 0
          }
        }
        service anvil {
          chroot =
        }
        \(settings.dropFirst().joined(separator: "\n"))

        """)
      try FileManager.default.setAttributes([.posixPermissions: 0o755], ofItemAtPath: folder(""))
      return try await Program(.dovecot, ["-F", "-c", folder("dovecot.conf")])
    }

    @Test(.needs(.dovecot), arguments: TLSVersion.both)
    func `IMAP: STARTTLS, and then a login`(version: TLSVersion) async throws {
      let folder = try CertificateFolder()
      let port = try freePort()
      let server = try await dovecot(in: folder, port: port)
      let endpoint = Endpoint.host("127.0.0.1", port: port)
      try await listens(endpoint)

      let plain = try await TCPConnection.connect(to: endpoint)
      let greeting = String(decoding: try await plain.read(until: .crlf), as: UTF8.self)
      #expect(greeting.hasPrefix("* OK") && greeting.contains("STARTTLS"), "\(greeting)")
      try await plain.write(utf8: "a STARTTLS\r\n")
      let answer = String(decoding: try await plain.read(until: .crlf), as: UTF8.self)
      #expect(answer.hasPrefix("a OK"), "\(answer)")
      let secure = plain.startTLS(try PeerFiles.shared.client(version), as: .client(serverName: "server.test"))
      try await secure.write(utf8: "b CAPABILITY\r\n")
      let capabilities = try await lines(of: secure, until: "b OK")
      #expect(!capabilities.contains("STARTTLS") && capabilities.contains("AUTH=PLAIN"), "\(capabilities)")
      try await secure.write(utf8: "c LOGIN me wrong\r\n")
      _ = try await lines(of: secure, until: "c NO")
      try await secure.write(utf8: "d LOGOUT\r\n")
      let goodbye = try await lines(of: secure, until: "d OK")
      #expect(goodbye.contains("* BYE"))
      #expect(try await secure.session.version == version)
      #expect(try await secure.read() == nil)
      await secure.close()
      // Another name than the certificate's.
      let other = try await TCPConnection.connect(to: endpoint)
      _ = try await other.read(until: .crlf)
      try await other.write(utf8: "a STARTTLS\r\n")
      _ = try await other.read(until: .crlf)
      let wrong = other.startTLS(try PeerFiles.shared.client(), as: .client(serverName: "imap.test"))
      await expectTLSError(.nameMismatch) { try await wrong.write(utf8: "b LOGIN me secret\r\n") }
      await server.kill(SIGTERM)
    }

    private func lines(of stream: any ByteStream, until end: String) async throws -> String {
      var text = ""
      for try await line in stream.lines {
        text += line + "\n"
        if line.hasPrefix(end) { return text }
      }
      throw Overdue(description: "the stream ended before \(end): \(text)")
    }

    // MARK: SMTP

    @Test(.needs(.openssl), arguments: TLSVersion.both)
    func `SMTP: OpenSSL's client begins with STARTTLS, and a server of ours upgrades`(version: TLSVersion) async throws
    {
      let files = try PeerFiles.shared
      let listener = try TCPListener.bind(to: .host("127.0.0.1", port: 0))
      let address = try #require(listener.localAddresses.first)
      let context = try files.server()
      let serving = Task {
        try await listener.serve { plain in
          try await plain.write(utf8: "220 server.test ESMTP\r\n")
          _ = try await plain.read(until: .crlf)
          try await plain.write(utf8: "250-server.test\r\n250 STARTTLS\r\n")
          #expect(try await plain.read(until: .crlf) == Array("STARTTLS\r\n".utf8))
          // All of it in one go: nothing is awaited between the answer and the upgrade.
          _ = plain.enqueueWrite(Array("220 go ahead\r\n".utf8), timeout: nil)
          let secure = plain.startTLS(context, as: .server)
          _ = try await secure.read(until: .crlf)
          try await secure.write(utf8: "250 encrypted\r\n")
          await secure.close()
        }
      }
      let client = try await Program(
        .openssl,
        [
          "s_client", "-connect", "\(address)", "-starttls", "smtp", "-quiet", "-crlf", "-CAfile", files("root.pem"),
          "-verify_return_error", "-verify_hostname", "server.test",
        ] + SServer.flags(version), input: .pipe)
      try await client.send("EHLO me\n")
      try await client.waitForOutput("250 encrypted")
      _ = try await client.exitStatus()
      _ = try await serving.ended
    }

    // MARK: PostgreSQL

    /// A cluster of its own, made and run by somebody who is not root.
    private func postgres(in folder: CertificateFolder, port: UInt16) async throws -> Program {
      let files = try PeerFiles.shared
      for name in ["pem", "key"] { try folder.write("server.\(name)", try files.folder.read("ecdsa.\(name)")) }
      let tools = Tool.postgres.url.deletingLastPathComponent().path
      try folder.write(
        "postgres.sh",
        """
        set -e
        cd '\(folder(""))'
        chmod 600 server.key
        '\(tools)/initdb' -D data -U me -A trust --no-sync >initdb.log
        exec '\(tools)/postgres' -D data -p \(port) -c listen_addresses=127.0.0.1 -c unix_socket_directories= \\
          -c fsync=off -c ssl=on -c ssl_cert_file='\(folder("server.pem"))' -c ssl_key_file='\(folder("server.key"))'

        """)
      if getuid() != 0 { return try await Program(.bash, [folder("postgres.sh")]) }
      let script =
        "chown -R postgres '\(folder(""))' && exec setpriv --reuid=postgres --regid=postgres --clear-groups bash '\(folder("postgres.sh"))'"
      return try await Program(.bash, ["-c", script])
    }

    /// Its protocol's SSLRequest, and what it answers: "S" is yes.
    private func askForTLS(_ endpoint: Endpoint) async throws -> TCPConnection {
      let plain = try await TCPConnection.connect(to: endpoint)
      try await plain.write([0, 0, 0, 8, 0x04, 0xd2, 0x16, 0x2f])
      #expect(try await plain.read(exactly: 1) == Array("S".utf8))
      return plain
    }

    @Test(.needs(.postgres)) func `PostgreSQL: SSLRequest, and then a query`() async throws {
      let folder = try CertificateFolder()
      let port = try freePort()
      let endpoint = Endpoint.host("127.0.0.1", port: port)
      let server = try await postgres(in: folder, port: port)
      try await server.waitForError("ready to accept connections")
      let context = try PeerFiles.shared.client()
      for version in TLSVersion.both {
        let plain = try await askForTLS(endpoint)
        let secure = plain.startTLS(try PeerFiles.shared.client(version), as: .client(serverName: "127.0.0.1"))
        try await query(
          secure, "select ssl, version from pg_stat_ssl where pid = pg_backend_pid()",
          expecting: ["t", "TLSv1.\(version == .v12 ? 2 : 3)"])
        #expect(try await secure.session.verdict.isTrusted)
        // X: the end.
        try await secure.write([0x58, 0, 0, 0, 4])
        await secure.close()
      }
      let wrong = try await askForTLS(endpoint).startTLS(context, as: .client(serverName: "db.test"))
      await expectTLSError(.nameMismatch) { try await wrong.handshake() }
      await server.kill(SIGINT)
      _ = try? await server.exitStatus()
    }

    /// Logs in, asks, and takes the one row that comes.
    private func query(_ stream: TLSConnection, _ text: String, expecting columns: [String]) async throws {
      func message(_ type: Character?, _ body: [UInt8]) -> [UInt8] {
        let length = UInt32(body.count + 4)
        let prefix = (0..<4).map { UInt8(truncatingIfNeeded: length >> (24 - 8 * UInt32($0))) }
        return ((type?.asciiValue).map { [$0] } ?? []) + prefix + body
      }
      let names = "user\0me\0database\0postgres\0\0"
      try await stream.write(message(nil, [0, 3, 0, 0] + Array(names.utf8)))
      var hasAsked = false
      while true {
        let type = try await stream.readInteger(as: UInt8.self)
        let length = try await stream.readInteger(as: UInt32.self)
        let body = try await stream.read(exactly: Int(length) - 4)
        switch Character(UnicodeScalar(type)) {
        case "Z" where hasAsked: return
        case "Z":
          hasAsked = true
          try await stream.write(message("Q", Array(text.utf8) + [0]))
        case "D":
          var rest = body.dropFirst(2)
          var found: [String] = []
          while !rest.isEmpty {
            let count = rest.prefix(4).reduce(0) { $0 << 8 | Int($1) }
            found.append(String(decoding: rest.dropFirst(4).prefix(count), as: UTF8.self))
            rest = rest.dropFirst(4 + count)
          }
          #expect(found == columns)
        case "E": throw Overdue(description: String(decoding: body, as: UTF8.self))
        default: break
        }
      }
    }
  }
}

extension Tool {
  /// Debian keeps it out of the search path, in a folder for each version.
  fileprivate static let postgres: Tool = {
    let versions = "/usr/lib/postgresql"
    let newest = (try? FileManager.default.contentsOfDirectory(atPath: versions))?.compactMap { Int($0) }.max() ?? 0
    return Tool(
      name: "postgres", package: "postgresql", url: URL(fileURLWithPath: "\(versions)/\(newest)/bin/postgres"))
  }()
}
