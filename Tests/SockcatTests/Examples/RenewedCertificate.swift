import ActorSocketsTLS
import Dispatch
import Glibc

/// Reads the certificate again whenever the process gets a SIGHUP: new connections show the new one, others go on.
func renewOnHangUp(_ context: TLSContext, certificateFile: String, keyFile: String) -> any DispatchSourceSignal {
  signal(SIGHUP, SIG_IGN)
  let source = DispatchSource.makeSignalSource(signal: SIGHUP)
  source.setEventHandler {
    do {
      let identity = try TLSIdentity(certificateFile: certificateFile, keyFile: keyFile)
      try context.replaceIdentities(identity: identity)
    } catch {
      print("the old certificate stays: \(error)")
    }
  }
  source.activate()
  return source
}
