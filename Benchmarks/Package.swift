// swift-tools-version: 6.2

import PackageDescription

// A package of its own, so that nobody who depends on ActorSockets builds or fetches anything of this.

let warnings: [CSetting] = [.unsafeFlags(["-Wall", "-Wextra"])]
let openSSL: [LinkerSetting] = [.linkedLibrary("ssl"), .linkedLibrary("crypto")]

let package = Package(
  name: "ActorSocketsBenchmarks",
  dependencies: [
    .package(name: "ActorSockets", path: ".."),
    // What the benchmarks compare with.
    .package(url: "https://github.com/apple/swift-nio.git", exact: "2.101.2"),
    .package(url: "https://github.com/apple/swift-nio-ssl.git", exact: "2.37.6"),
    .package(url: "https://github.com/swhitty/FlyingFox.git", exact: "0.27.1"),
    .package(url: "https://github.com/apple/swift-nio-extras.git", exact: "1.35.2"),
  ],
  targets: [
    .executableTarget(name: "raw-c-echo", cSettings: warnings),
    .executableTarget(name: "raw-c-udp", cSettings: warnings),
    .executableTarget(name: "raw-c-tls-echo", cSettings: warnings, linkerSettings: openSSL),
    .executableTarget(name: "load", cSettings: warnings, linkerSettings: openSSL),
    .executableTarget(name: "raw-c-framing", cSettings: warnings),
    .target(name: "ServerSupport"),
    .executableTarget(
      name: "swift-echo",
      dependencies: [
        "ServerSupport",
        .product(name: "ActorSockets", package: "ActorSockets"),
      ]
    ),
    .executableTarget(
      name: "nio-echo",
      dependencies: [
        "ServerSupport",
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
      ]
    ),
    .executableTarget(
      name: "flying-echo",
      dependencies: [
        "ServerSupport",
        .product(name: "FlyingSocks", package: "FlyingFox"),
      ],
      // The usual linker warns of a function of Foundation's whenever that is linked statically.
      linkerSettings: [.unsafeFlags(["-use-ld=lld"])]
    ),
    .executableTarget(
      name: "swift-udp-echo",
      dependencies: [
        "ServerSupport",
        .product(name: "ActorSockets", package: "ActorSockets"),
      ]
    ),
    .executableTarget(
      name: "nio-udp-echo",
      dependencies: [
        "ServerSupport",
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
      ]
    ),
    .executableTarget(
      name: "swift-framing",
      dependencies: [
        "ServerSupport",
        .product(name: "ActorSockets", package: "ActorSockets"),
      ]
    ),
    .executableTarget(
      name: "nio-framing",
      dependencies: [
        "ServerSupport",
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOExtras", package: "swift-nio-extras"),
        .product(name: "NIOPosix", package: "swift-nio"),
      ]
    ),
    .executableTarget(
      name: "swift-jobs",
      dependencies: [
        "ServerSupport",
        .product(name: "ActorSockets", package: "ActorSockets"),
      ]
    ),
    .executableTarget(
      name: "swift-timers",
      dependencies: [
        "ServerSupport",
        .product(name: "ActorSockets", package: "ActorSockets"),
      ]
    ),
    .executableTarget(
      name: "nio-timers",
      dependencies: [
        "ServerSupport",
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
      ]
    ),
    .executableTarget(
      name: "swift-tls-echo",
      dependencies: [
        "ServerSupport",
        .product(name: "ActorSockets", package: "ActorSockets"),
        .product(name: "ActorSocketsTLS", package: "ActorSockets"),
      ]
    ),
    .executableTarget(
      name: "nio-tls-echo",
      dependencies: [
        "ServerSupport",
        .product(name: "NIOCore", package: "swift-nio"),
        .product(name: "NIOPosix", package: "swift-nio"),
        .product(name: "NIOSSL", package: "swift-nio-ssl"),
      ]
    ),
  ],
  swiftLanguageModes: [.v6],
  cLanguageStandard: .gnu11
)
