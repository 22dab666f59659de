// swift-tools-version: 6.2

import PackageDescription

// The TCP of the simulation beside Linux's: `make realism`. A package of its own, because no test and no user needs it.

let package = Package(
  name: "Realism",
  dependencies: [
    .package(name: "ActorSockets", path: "../..")
  ],
  targets: [
    .executableTarget(
      name: "realism",
      dependencies: [
        .product(name: "ActorSockets", package: "ActorSockets"),
        .product(name: "ActorSocketsTesting", package: "ActorSockets"),
      ]
    ),
    .executableTarget(name: "wire", cSettings: [.unsafeFlags(["-Wall", "-Wextra", "-O2"])]),
  ],
  swiftLanguageModes: [.v6],
  cLanguageStandard: .gnu11
)
