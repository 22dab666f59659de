// swift-tools-version: 6.2

import PackageDescription

// The settings are those of a new package: Swift 6 mode and nothing else.

let sockets: Target.Dependency = .product(name: "ActorSockets", package: "ActorSockets")

let package = Package(
  name: "Examples",
  dependencies: [
    .package(name: "ActorSockets", path: "../.."),
    .package(url: "https://github.com/apple/swift-http-types.git", exact: "1.8.0"),
  ],
  targets: [
    .executableTarget(name: "RedisClient", dependencies: [sockets], exclude: ["README.md"]),
    .executableTarget(
      name: "FileServer", dependencies: [sockets, .product(name: "HTTPTypes", package: "swift-http-types")],
      exclude: ["README.md"]),
    .executableTarget(name: "DNSForwarder", dependencies: [sockets], exclude: ["README.md"]),
    .executableTarget(name: "MQTTBroker", dependencies: [sockets], exclude: ["README.md"]),
    .executableTarget(name: "WebSocketChat", dependencies: [sockets], exclude: ["README.md"]),
    .target(name: "ExampleTestSupport", path: "Tests/Support"),
    .testTarget(name: "RedisClientTests", dependencies: ["RedisClient", "ExampleTestSupport", sockets]),
    .testTarget(
      name: "FileServerTests",
      dependencies: [
        "FileServer", "ExampleTestSupport", sockets, .product(name: "HTTPTypes", package: "swift-http-types"),
      ]),
    .testTarget(name: "MQTTBrokerTests", dependencies: ["MQTTBroker", "ExampleTestSupport", sockets]),
    .testTarget(
      name: "WebSocketChatTests", dependencies: ["WebSocketChat", "ExampleTestSupport", sockets],
      exclude: ["conversation.py", "listener.py"]),
    .testTarget(name: "DNSForwarderTests", dependencies: ["DNSForwarder", "ExampleTestSupport", sockets]),
  ],
  swiftLanguageModes: [.v6]
)
