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
      swiftSettings: strict),
    // A target of its own, because only tests can link Swift Testing.
    .target(name: "ActorSocketsTestTraits", dependencies: ["ActorSocketsTesting"], swiftSettings: strict),
    .executableTarget(name: "sockcat", dependencies: ["ActorSockets", "ActorSocketsTLS"], swiftSettings: strict),
    .target(
      name: "TestSupport", dependencies: ["EpollReactor", "SocketSystem"], path: "Tests/TestSupport",
      swiftSettings: strict),
    .testTarget(
      name: "SocketSystemTests", dependencies: ["SocketSystem", "TestSupport"], swiftSettings: strict),
    .testTarget(
      name: "EpollReactorTests",
      dependencies: ["EpollReactor", "SocketSystem", "ActorSocketsTesting", "TestSupport"],
      swiftSettings: strict),
    .testTarget(
      name: "ActorSocketsTests",
      dependencies: [
        "ActorSockets", "ActorSocketsTLS", "ActorSocketsTesting", "ActorSocketsTestTraits", "EpollReactor",
        "SocketSystem", "TestSupport",
      ],
      swiftSettings: strict),
    .testTarget(
      name: "ActorSocketsTLSTests",
      dependencies: [
        "ActorSockets", "ActorSocketsTLS", "ActorSocketsTesting", "COpenSSL", "EpollReactor", "SocketSystem",
        "TestSupport",
      ],
      swiftSettings: strict),
    .testTarget(name: "SourceRulesTests", exclude: ["CocoaAsyncSocketSymbols.txt"], swiftSettings: strict),
    .testTarget(
      name: "SockcatTests",
      dependencies: ["sockcat", "ActorSockets", "ActorSocketsTLS", "ActorSocketsTesting", "TestSupport"],
      swiftSettings: strict),
  ]
)
