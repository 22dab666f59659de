// swift-tools-version: 6.2
import PackageDescription

// A package of its own, so that programs that depend on ActorSockets neither fetch nor build anything of this.

/// `make examples` makes warnings errors.
let warnings: [SwiftSetting] =
  Context.environment["WARNINGS_AS_ERRORS"] == nil ? [] : [.treatAllWarnings(as: .error)]

/// The same strictness as in the package ActorSockets, apart from what NIO does not allow: the compiler counts the members of `sockaddr_in`
/// to a C module that is internal to NIO, so they cannot be imported by name.
let strictWithNIO: [SwiftSetting] =
  warnings + [
    .swiftLanguageMode(.v6),
    .strictMemorySafety(),
    .enableUpcomingFeature("ExistentialAny"),
    .enableUpcomingFeature("InternalImportsByDefault"),
    .enableUpcomingFeature("NonisolatedNonsendingByDefault"),
    .enableUpcomingFeature("InferIsolatedConformances"),
  ]
let strict = strictWithNIO + [.enableUpcomingFeature("MemberImportVisibility")]

let sockets: Target.Dependency = .product(name: "ActorSockets", package: "ActorSockets")
let socketsTLS: Target.Dependency = .product(name: "ActorSocketsTLS", package: "ActorSockets")
let socketsTesting: Target.Dependency = .product(name: "ActorSocketsTesting", package: "ActorSockets")
let socketsTestTraits: Target.Dependency = .product(name: "ActorSocketsTestTraits", package: "ActorSockets")

// MARK: Integrations: ActorSockets with other libraries

let logging: Target.Dependency = .product(name: "Logging", package: "swift-log")
let metrics: Target.Dependency = .product(name: "CoreMetrics", package: "swift-metrics")
let tracing: Target.Dependency = .product(name: "Tracing", package: "swift-distributed-tracing")
let lifecycle: Target.Dependency = .product(name: "ServiceLifecycle", package: "swift-service-lifecycle")
let configuration: Target.Dependency = .product(name: "Configuration", package: "swift-configuration")
let nio: Target.Dependency = .product(name: "NIOCore", package: "swift-nio")

let integrations: [Target] = [
  .target(name: "ActorSocketsObservers", dependencies: [sockets], swiftSettings: strict),
  .target(
    name: "ActorSocketsLogging", dependencies: ["ActorSocketsObservers", sockets, logging], swiftSettings: strict),
  .target(name: "ActorSocketsMetrics", dependencies: [sockets, metrics], swiftSettings: strict),
  .target(
    name: "ActorSocketsTracing", dependencies: ["ActorSocketsObservers", sockets, tracing], swiftSettings: strict),
  .target(name: "ActorSocketsLifecycle", dependencies: [sockets, lifecycle], swiftSettings: strict),
  .target(name: "ActorSocketsConfiguration", dependencies: [sockets, configuration], swiftSettings: strict),
  .target(name: "ActorSocketsNIO", dependencies: [sockets, nio], swiftSettings: strictWithNIO),
  .testTarget(
    name: "IntegrationTests",
    dependencies: [
      "ActorSocketsObservers", "ActorSocketsLogging", "ActorSocketsMetrics", "ActorSocketsTracing",
      "ActorSocketsLifecycle", "ActorSocketsConfiguration", "ActorSocketsNIO", "ExampleSupport", sockets, socketsTLS,
      socketsTesting, logging,
      metrics,
      tracing, lifecycle, configuration, nio,
      .product(name: "InMemoryLogging", package: "swift-log"),
      .product(name: "MetricsTestKit", package: "swift-metrics"),
      .product(name: "InMemoryTracing", package: "swift-distributed-tracing"),
    ],
    swiftSettings: strictWithNIO),
]

// MARK: Examples: whole programs

/// Text as bytes, for all examples that compare what a peer has sent.
let byteText: Target.Dependency = "ByteText"
let httpTypes: Target.Dependency = .product(name: "HTTPTypes", package: "swift-http-types")

// Their settings are those of a new package: Swift 6 mode and nothing else.
let examples: [Target] = [
  .target(name: "ByteText"),
  .executableTarget(name: "RedisClient", dependencies: [byteText, sockets], exclude: ["README.md"]),
  .executableTarget(name: "FileServer", dependencies: [byteText, sockets, httpTypes], exclude: ["README.md"]),
  .executableTarget(name: "DNSForwarder", dependencies: [sockets], exclude: ["README.md"]),
  .executableTarget(name: "MQTTBroker", dependencies: [byteText, sockets], exclude: ["README.md"]),
  .executableTarget(name: "WebSocketChat", dependencies: [byteText, sockets], exclude: ["README.md"]),
  .executableTarget(name: "SMTPClient", dependencies: [byteText, sockets, socketsTLS], exclude: ["README.md"]),
  .executableTarget(name: "ControlSocket", dependencies: [byteText, sockets], exclude: ["README.md"]),
  .executableTarget(name: "ReverseProxy", dependencies: [byteText, socketsTLS], exclude: ["README.md"]),
  .executableTarget(name: "CodableRPC", dependencies: [byteText, sockets], exclude: ["README.md"]),
  .executableTarget(name: "Discovery", dependencies: [byteText, sockets], exclude: ["README.md"]),
  .executableTarget(name: "ReplicatedRegister", dependencies: [byteText, sockets], exclude: ["README.md"]),
  .executableTarget(name: "Raft", dependencies: [sockets], exclude: ["README.md"]),
  .target(name: "ShortPrograms", dependencies: [byteText, socketsTLS], exclude: ["README.md"]),
  .executableTarget(name: "ShortProgram", dependencies: ["ShortPrograms", byteText, socketsTLS]),
  .testTarget(name: "ByteTextTests", dependencies: [byteText]),
  .testTarget(
    name: "ShortProgramsTests",
    dependencies: ["ShortPrograms", byteText, "ExampleSupport", socketsTLS, socketsTesting, socketsTestTraits],
    exclude: ["ask.py"]),
  .testTarget(name: "RedisClientTests", dependencies: ["RedisClient", "ByteText", "ExampleSupport", sockets]),
  .testTarget(name: "FileServerTests", dependencies: ["FileServer", "ByteText", "ExampleSupport", sockets, httpTypes]),
  .testTarget(name: "DNSForwarderTests", dependencies: ["DNSForwarder", "ExampleSupport", sockets]),
  .testTarget(name: "MQTTBrokerTests", dependencies: ["MQTTBroker", "ByteText", "ExampleSupport", sockets]),
  .testTarget(
    name: "WebSocketChatTests", dependencies: ["WebSocketChat", "ByteText", "ExampleSupport", sockets],
    exclude: ["conversation.py", "listener.py"]),
  .testTarget(
    name: "SMTPClientTests", dependencies: ["SMTPClient", "ByteText", "ExampleSupport", sockets, socketsTLS],
    exclude: ["server.py"]),
  .testTarget(name: "ControlSocketTests", dependencies: ["ControlSocket", "ByteText", "ExampleSupport", sockets]),
  .testTarget(
    name: "ReverseProxyTests", dependencies: ["ReverseProxy", "ByteText", "ExampleSupport", socketsTLS],
    exclude: ["echo.py"]),
  .testTarget(
    name: "CodableRPCTests", dependencies: ["CodableRPC", "ByteText", "ExampleSupport", sockets],
    exclude: ["rpc.py", "client.py", "server.py"]),
  .testTarget(
    name: "DiscoveryTests", dependencies: ["Discovery", "ByteText", "ExampleSupport", sockets], exclude: ["peer.py"]),
  .testTarget(
    name: "ReplicatedRegisterTests",
    dependencies: ["ReplicatedRegister", "ByteText", "ExampleSupport", sockets, socketsTesting, socketsTestTraits]),
  .testTarget(name: "RaftTests", dependencies: ["Raft", "ExampleSupport", sockets, socketsTesting]),
]

let package = Package(
  name: "ActorSocketsExamples",
  products: integrations.filter { $0.type == .regular }.map { .library(name: $0.name, targets: [$0.name]) },
  dependencies: [
    .package(name: "ActorSockets", path: "../.."),
    .package(url: "https://github.com/apple/swift-log.git", exact: "1.16.2"),
    .package(url: "https://github.com/apple/swift-metrics.git", exact: "2.13.0"),
    .package(url: "https://github.com/apple/swift-distributed-tracing.git", exact: "1.7.3"),
    .package(url: "https://github.com/swift-server/swift-service-lifecycle.git", exact: "2.13.0"),
    .package(url: "https://github.com/apple/swift-configuration.git", exact: "1.4.0"),
    .package(url: "https://github.com/apple/swift-nio.git", exact: "2.101.2"),
    .package(url: "https://github.com/apple/swift-http-types.git", exact: "1.8.0"),
  ],
  targets: integrations + examples + [
    // What the tests of integrations and examples share.
    .target(name: "ExampleSupport", path: "Tests/ExampleSupport")
  ],
  swiftLanguageModes: [.v6]
)
