// swift-tools-version: 6.2

import PackageDescription

// The settings are those of a new package: Swift 6 mode and nothing else.

let sockets: Target.Dependency = .product(name: "ActorSockets", package: "ActorSockets")

let package = Package(
  name: "Examples",
  dependencies: [
    .package(name: "ActorSockets", path: "../.."),
  ],
  targets: [
    .executableTarget(name: "RedisClient", dependencies: [sockets], exclude: ["README.md"]),
    .target(name: "ExampleTestSupport", path: "Tests/Support"),
    .testTarget(name: "RedisClientTests", dependencies: ["RedisClient", "ExampleTestSupport", sockets]),
  ],
  swiftLanguageModes: [.v6]
)
