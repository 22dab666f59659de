import ActorSockets
import ActorSocketsTesting

// The faults that the article about testing shows.

func injectFaults() async throws {
  let injection = try FaultInjection([.shortReads(probability: 0.5), .shortWrites(probability: 0.5)], seed: 7)
  let listener = try TCPListener.bind(to: .host("localhost", port: 0), reactor: injection.reactor)
  await listener.close()

  injection.setFaults([.fail(.send, with: .noBufferSpace, probability: 0.01)])
  injection.setLimits(descriptors: 100)
  injection.setFaults([.emfile(after: 10)])
}
