// swift-tools-version: 6.2

import PackageDescription

// What a user's package looks like: Swift 6 mode and nothing else set. Bugs of the compiler with public actors have
// broken the release builds of clients before, while this package's own builds went through.

let package = Package(
  name: "ReleaseClient",
  dependencies: [
    .package(name: "ActorSockets", path: "../..")
  ],
  targets: [
    .executableTarget(
      name: "release-client",
      dependencies: [
        .product(name: "ActorSockets", package: "ActorSockets"),
        .product(name: "ActorSocketsTLS", package: "ActorSockets"),
      ]
    )
  ],
  swiftLanguageModes: [.v6]
)
