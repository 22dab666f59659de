import Foundation
import TestSupport
import Testing

/// Connecting to a name where no name server answers: in a network and with files of its own, namespaces(7).
@Suite(.needs(.bash), .runs(unless: Namespace.mountObstacle)) struct NameServerTests {
  enum Server: String, CaseIterable {
    /// It takes questions and never answers.
    case silent
    /// No socket receives at its port.
    case absent
    /// No route leads to it.
    case unreachable

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

  private func connect(
    _ server: Server, to endpoint: String = "name.example:80", _ options: [String] = []
  ) async throws -> (Int32, String) {
    let folder = try Folder()
    defer { withExtendedLifetime(folder) {} }
    let script = """
      set -e; PATH=$PATH:/usr/sbin:/sbin; cd \(folder.url.path)
      \(Namespace.makeMountsPrivate)
      ip link set lo up
      \(server.commands)
      printf 'nameserver 192.0.2.53\\noptions timeout:1 attempts:1\\n' > resolv.conf
      echo 'hosts: files dns' > nsswitch.conf
      echo '127.0.0.1 name.internal' > hosts
      for file in resolv.conf nsswitch.conf hosts; do [ -e /etc/$file ]; mount --bind $file /etc/$file; done
      status=0; "$@" || status=$?
      \(Namespace.endPrivateMounts)
      exit $status
      """
    let program = try await Program(
      .bash,
      [
        "-c", "exec \(Namespace.unshareMounts) bash -c \"$0\" bash \"$@\"", script, Tool.sockcat.url.path, "connect",
        endpoint,
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

  @Test(arguments: Server.allCases)
  func `A name of the hosts file does not ask the name server, not for the other family either`(
    server: Server
  ) async throws {
    let (status, errors) = try await connect(server, to: "name.internal:1", ["-6"])
    #expect(status == 1)
    #expect(errors.contains("\"name.internal\" has no address"), "\(errors)")
  }

  @Test func `Localhost and numbers do not ask the name server`() async throws {
    for name in ["localhost", "LOCALHOST.", "db.localhost", "loopback"] {
      let (status, errors) = try await connect(.silent, to: "\(name):1")
      #expect(status == 1 && errors.contains("no process listens"), "\(errors)")
    }
    for name in ["127.1", "0x7f000001", "2130706433", "0177.0.0.1"] {
      let (status, errors) = try await connect(.silent, to: "\(name):1")
      #expect(status != 0 && errors.contains("is not an IPv4 address"), "\(errors)")
    }
  }
}
