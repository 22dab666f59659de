// swift-tools-version: 6.2

import PackageDescription

// A package of its own, so that nobody who depends on ActorSockets builds or fetches anything of this.

let warnings: [CSetting] = [.unsafeFlags(["-Wall", "-Wextra"])]

let package = Package(
  name: "ActorSocketsBenchmarks",
  dependencies: [
    .package(name: "ActorSockets", path: "..")
  ],
  targets: [
    .executableTarget(name: "raw-c-echo", cSettings: warnings),
    .executableTarget(name: "load", cSettings: warnings),
    .executableTarget(
      name: "swift-echo",
      dependencies: [.product(name: "ActorSockets", package: "ActorSockets")]
    ),
  ],
  swiftLanguageModes: [.v6],
  cLanguageStandard: .gnu11
)
