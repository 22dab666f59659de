// swift-tools-version: 6.2
import PackageDescription

/// The same strictness for every target: what the compiler can prove, it proves.
let strict: [SwiftSetting] = [
  .swiftLanguageMode(.v6),
  .strictMemorySafety(),
  .enableUpcomingFeature("ExistentialAny"),
  .enableUpcomingFeature("InternalImportsByDefault"),
  .enableUpcomingFeature("MemberImportVisibility"),
  .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
  .enableUpcomingFeature("InferIsolatedConformances"),
]

/// Files and modules of tests that are not built. Some builds of the Makefile run a part of the tests, and compiling is most of their time.
let unbuilt = (Context.environment["ACTORSOCKETS_UNBUILT"] ?? "").split(separator: " ")

/// A target of tests without these files; empty if that is the whole target.
func tests(_ name: String, dependencies: [Target.Dependency] = [], exclude: [String] = []) -> [Target] {
  let folder = "Tests/\(name)"
  if unbuilt.contains(folder[...]) { return [] }
  let parts = unbuilt.filter { $0.hasPrefix("\(folder)/") }.map { String($0.dropFirst(folder.count + 1)) }
  return [
    .testTarget(name: name, dependencies: dependencies, exclude: exclude + parts, swiftSettings: strict)
  ]
}

let package = Package(
  name: "ActorSockets",
  products: [
    .library(name: "ActorSockets", targets: ["ActorSockets"]),
    .library(name: "ActorSocketsTLS", targets: ["ActorSocketsTLS"]),
    .library(name: "ActorSocketsTesting", targets: ["ActorSocketsTesting"]),
    .library(name: "ActorSocketsTestTraits", targets: ["ActorSocketsTestTraits"]),
    .executable(name: "sockcat", targets: ["sockcat"]),
  ],
  targets: [
    .target(name: "CLinux"),
    .target(name: "SocketSystem", dependencies: ["CLinux"], swiftSettings: strict),
    .target(name: "EpollReactor", dependencies: ["SocketSystem"], swiftSettings: strict),
    .target(name: "ActorSockets", dependencies: ["EpollReactor", "SocketSystem"], swiftSettings: strict),
    .systemLibrary(name: "COpenSSL", pkgConfig: "openssl", providers: [.apt(["libssl-dev", "pkg-config"])]),
    .target(
      name: "ActorSocketsTLS", dependencies: ["ActorSockets", "EpollReactor", "SocketSystem", "COpenSSL"],
      swiftSettings: strict),
    .target(name: "CVirtualTime"),
    .target(
      name: "ActorSocketsTesting", dependencies: ["ActorSockets", "CVirtualTime", "EpollReactor", "SocketSystem"],
      resources: ["picture.css", "picture.html", "model.js", "view.js", "page.js"].map {
        .embedInCode("Picture/Resources/\($0)")
      },
      swiftSettings: strict),
    // A target of its own, because only tests can link Swift Testing.
    .target(name: "ActorSocketsTestTraits", dependencies: ["ActorSocketsTesting"], swiftSettings: strict),
    .executableTarget(
      name: "sockcat", dependencies: ["ActorSockets", "ActorSocketsTLS"], packageAccess: false, swiftSettings: strict),
    .target(
      name: "TestSupport", dependencies: ["EpollReactor", "SocketSystem"], path: "Tests/TestSupport",
      swiftSettings: strict),
  ]
    + tests("SocketSystemTests", dependencies: ["SocketSystem", "TestSupport"])
    + tests("EpollReactorTests", dependencies: ["EpollReactor", "SocketSystem", "ActorSocketsTesting", "TestSupport"])
    + tests(
      "ActorSocketsTests",
      dependencies: [
        "ActorSockets", "ActorSocketsTLS", "ActorSocketsTesting", "ActorSocketsTestTraits", "EpollReactor",
        "SocketSystem", "TestSupport",
      ])
    + tests(
      "ActorSocketsTLSTests",
      dependencies: [
        "ActorSockets", "ActorSocketsTLS", "ActorSocketsTesting", "COpenSSL", "EpollReactor", "SocketSystem",
        "TestSupport",
      ])
    + tests("SourceRulesTests", dependencies: ["TestSupport"], exclude: ["CocoaAsyncSocketSymbols.txt"])
    + tests(
      "SockcatTests",
      dependencies: ["sockcat", "ActorSockets", "ActorSocketsTLS", "ActorSocketsTesting", "TestSupport"])
)
