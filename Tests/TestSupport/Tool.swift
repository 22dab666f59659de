package import Foundation

/// The program that runs the tests: proc(5).
package let ownProgram = URL(fileURLWithPath: "/proc/self/exe").resolvingSymlinksInPath()

package struct Tool: Sendable {
  package let name: String
  package let package: String
  package let url: URL
  package let isInstalled: Bool

  package var obstacle: String? {
    isInstalled ? nil : "\(name) is not installed: apt-get install \(package)"
  }

  /// A program from the search path, or from where the system's own are.
  package init(_ name: String, package: String? = nil) {
    self.name = name
    self.package = package ?? name
    let path = ProcessInfo.processInfo.environment["PATH"] ?? "/usr/bin:/bin"
    let found = "\(path):/usr/sbin:/sbin".split(separator: ":").map {
      URL(fileURLWithPath: String($0)).appendingPathComponent(name)
    }
    .first { FileManager.default.isExecutableFile(atPath: $0.path) }
    isInstalled = found != nil
    url = found ?? URL(fileURLWithPath: "/nonexistent/\(name)")
  }

  package init(name: String, package: String, url: URL) {
    self.name = name
    self.package = package
    self.url = url
    isInstalled = FileManager.default.isExecutableFile(atPath: url.path)
  }

  package static let curl = Tool("curl")
  package static let socat = Tool("socat")
  package static let ncat = Tool("ncat")
  package static let wrk = Tool("wrk")
  package static let bash = Tool("bash")
  package static let perl = Tool("perl")
  package static let prlimit = Tool("prlimit")
  package static let strace = Tool("strace")
  package static let dnsmasq = Tool("dnsmasq", package: "dnsmasq-base")
  package static let nsenter = Tool("nsenter", package: "util-linux")
  package static let openssl = Tool("openssl")
  package static let tshark = Tool("tshark")
  package static let microsocks = Tool("microsocks")
  package static let tinyproxy = Tool("tinyproxy")
  package static let haproxy = Tool("haproxy")
  package static let chromium = Tool("chromium")
  package static let sha256sum = Tool("sha256sum")
  package static let env = Tool("env", package: "coreutils")
}
