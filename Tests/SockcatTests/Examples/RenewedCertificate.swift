import ActorSockets
import ActorSocketsTLS

/// Reads the certificate again whenever the process gets a SIGHUP: new connections show the new one, and established ones keep the old one.
func renewOnHangUp(_ context: TLSContext, certificateFile: String, keyFile: String) async throws {
  for await _ in try ProcessSignals([.hangup]) {
    do {
      let identity = try TLSIdentity(certificateFile: certificateFile, keyFile: keyFile)
      try context.replaceIdentities(identity: identity)
    } catch {
      print("the old certificate stays: \(error)")
    }
  }
}
