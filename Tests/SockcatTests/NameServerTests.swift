import Foundation
import TestSupport
import Testing

/// Connecting to a name where no name server answers: in a network and with files of its own, namespaces(7).
@Suite(.needs(.bash), .runs(unless: Namespace.mountObstacle))
struct NameServerTests {
  enum Server: String, CaseIterable {
    /// It takes questions and never answers.
    case silent
    /// No socket receives at its port.
    case absent
    /// No route leads to it.
    case unreachable

    /// What makes it so.
    var commands: String {
      switch self {
      case .silent:
        """
        ip link add dark type veth peer name end; ip link set end up
        ip address add 192.0.2.1/24 dev dark; ip link set dark up
        ip neighbour add 192.0.2.53 lladdr 02:00:00:00:00:01 dev dark
        """
      case .absent: "ip address add 192.0.2.53/32 dev lo"
      case .unreachable: ""
      }
    }
  }

  /// Connects, and returns the exit status and what was said on standard error.
  private func connect(_ server: Server, _ options: [String] = []) async throws -> (Int32, String) {
    let folder = try Folder()
    defer { withExtendedLifetime(folder) {} }
    let script = """
      set -e; PATH=$PATH:/usr/sbin:/sbin; cd \(folder.url.path)
      \(Namespace.makeMountsPrivate)
      ip link set lo up
      \(server.commands)
      printf 'nameserver 192.0.2.53\\noptions timeout:1 attempts:1\\n' > resolv.conf
      echo 'hosts: files dns' > nsswitch.conf
      for file in resolv.conf nsswitch.conf; do [ -e /etc/$file ]; mount --bind $file /etc/$file; done
      status=0; "$@" || status=$?
      \(Namespace.endPrivateMounts)
      exit $status
      """
    let program = try await Program(
      .bash,
      [
        "-c", "exec \(Namespace.unshareMounts) bash -c \"$0\" bash \"$@\"", script, Tool.sockcat.url.path, "connect",
        "name.example:80",
      ] + options)
    return (try await program.exitStatus(), await program.errors.whole)
  }

  @Test(arguments: Server.allCases)
  func `A name server that cannot be asked is named as the cause`(server: Server) async throws {
    let (status, errors) = try await connect(server)
    #expect(status == 1)
    #expect(errors.contains("no name server answered for \"name.example\""))
  }

  @Test func `Waiting for a silent name server ends when the time for connecting does`() async throws {
    let (status, errors) = try await connect(.silent, ["--timeout", "0.2"])
    #expect(status == 4)
    #expect(errors.contains("the look-up of \"name.example\" did not end within 200 ms"))
  }
}
