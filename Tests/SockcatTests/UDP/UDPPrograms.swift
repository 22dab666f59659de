import Foundation
import TestSupport
import Testing

extension Program {
  static func sockcat(
    _ arguments: [String], input: Input = .nothing, in network: Namespace? = nil
  ) async throws -> Program {
    try await started(.sockcat, arguments, input: input, in: network)
  }

  /// Starts a program, in a network of its own if one is given.
  static func started(
    _ tool: Tool, _ arguments: [String], input: Input = .nothing, in network: Namespace?
  ) async throws -> Program {
    guard let network else { return try await Program(tool, arguments, input: input) }
    // It becomes the program, so signals find it.
    return try await Program(.nsenter, ["--net=\(network.path)", tool.url.path] + arguments, input: input)
  }

  /// Starts `sockcat udp-listen`, and waits until it says the address on which it listens.
  static func udpListening(_ arguments: [String], in network: Namespace? = nil) async throws -> (Program, String) {
    try await announced(sockcat(["udp-listen"] + arguments, in: network))
  }

  /// Runs `sockcat udp-send` with a text, and waits for what it prints about the answer.
  static func udpExchange(
    _ arguments: [String], _ text: String, expecting answer: String, in network: Namespace? = nil
  ) async throws {
    let sender = try await sockcat(["udp-send"] + arguments + ["--wait", "0.1"], input: .pipe, in: network)
    try await sender.send(text)
    try await sender.waitForOutput(answer)
    try await sender.finish()
  }

  /// Runs `sockcat udp-send` with an input to its end, which is to be a good one.
  @discardableResult
  static func udpSend(_ arguments: [String], _ text: String, in network: Namespace? = nil) async throws -> Program {
    let sender = try await sockcat(["udp-send"] + arguments, input: .pipe, in: network)
    try await sender.send(text)
    try await sender.finishInput()
    let status = try await sender.exitStatus()
    guard status == 0 else {
      throw Disappointment(description: "\(sender) ended with \(status): \(await sender.errors.whole)")
    }
    return sender
  }

  /// The lines it printed without their first word, which is an address.
  var linesWithoutAddress: [String] {
    get async { await output.lines.map { $0.split(separator: " ", maxSplits: 1).dropFirst().joined() } }
  }
}
