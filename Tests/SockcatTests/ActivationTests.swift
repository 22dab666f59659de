import Foundation
import TestSupport
import Testing

/// sockcat, started as systemd starts programs: with sockets as descriptors 3 and up, and variables that name them.
@Suite(.needs(.perl)) struct ActivationTests {
  /// Makes the sockets it is told to, and becomes the program.
  private static let launcher = """
    use Socket; $^F = 100; my @sockets; my %set = (LISTEN_PID => $$);
    while ((my $word = shift) ne "--") {
      if ($word =~ /^(LISTEN_\\w+)=(.*)/) { $set{$1} = $2; next }
      my $type = $word eq "udp" ? SOCK_DGRAM : SOCK_STREAM;
      my ($family, $address) = $word =~ /^unix:(.*)/
        ? (PF_UNIX, pack_sockaddr_un("$1")) : (PF_INET, pack_sockaddr_in(0, INADDR_LOOPBACK));
      my $socket;
      socket($socket, $family, $type, 0) && bind($socket, $address) or die $!;
      listen($socket, 10) or die $! if $type == SOCK_STREAM;
      push @sockets, $socket;
    }
    %ENV = (%ENV, LISTEN_FDS => scalar @sockets, %set);
    exec @ARGV;
    """

  private func start(_ sockets: [String], _ arguments: [String]) async throws -> Program {
    try await Program(.perl, ["-e", Self.launcher] + sockets + ["--", Tool.sockcat.url.path, "listen"] + arguments)
  }

  /// The addresses that it says it listens on.
  private func addresses(of server: Program, _ count: Int) async throws -> [Substring] {
    _ = await server.errors.wait { $0.filter { $0 == "\n" }.count >= count }
    return await server.errors.text.split(separator: "\n").compactMap {
      $0.hasPrefix("listening on ") ? $0.dropFirst("listening on ".count) : nil
    }
  }

  @Test func `All sockets that listen are served, and the others passed over`() async throws {
    let folder = try Folder()
    let path = folder.file("socket").path
    let server = try await start(["tcp", "udp", "unix:\(path)"], ["systemd:", "--echo"])
    let addresses = try await addresses(of: server, 2)
    #expect(addresses.count == 2 && addresses.last == "unix:\(path)")
    for address in addresses { try await Program.expectEcho(at: String(address)) }
    try await server.stop()
    // It is systemd's.
    #expect(FileManager.default.fileExists(atPath: path))
  }

  @Test func `Only the socket with the given name is served`() async throws {
    let server = try await start(["LISTEN_FDNAMES=web:admin", "tcp", "tcp"], ["systemd:admin", "--echo", "--once"])
    let addresses = try await addresses(of: server, 1)
    #expect(addresses.count == 1)
    try await Program.expectEcho(at: String(try #require(addresses.first)))
    #expect(try await server.exitStatus() == 0)
  }

  @Test(arguments: [
    (["udp"], "systemd:", "systemd passed no socket"),
    (["LISTEN_PID=1", "tcp"], "systemd:", "systemd passed no socket"),
    (["LISTEN_FDNAMES=web", "tcp"], "systemd:ftp", "no socket named \"ftp\" was passed, only \"web\""),
    (["LISTEN_FDNAMES=dns", "udp"], "systemd:dns", "descriptor 3 is a socket for datagrams"),
    (["LISTEN_FDS=100", "tcp"], "systemd:", "LISTEN_FDS is 100, but fewer descriptors are open"),
    (["LISTEN_FDS=-1", "tcp"], "systemd:", "LISTEN_FDS is \"-1\""), (["tcp", "tcp"], "systemd:", "name one of them"),
  ])
  func `Sockets that cannot be served end in one line and status 2`(sockets: [String], origin: String, part: String)
    async throws
  {
    let server = try await start(sockets, [origin])
    try await server.expectFailure(2, part)
  }
}
