/// A socket that sends together with others: after the calls and jobs of an iteration, and before the loop sleeps.
package protocol GatheredSender: AnyObject {
  /// On the reactor's thread. There may be nothing to send any more.
  func sendGathered()
}

struct GatheredSend {
  let sender: any GatheredSender
  /// The actor in whose isolation the sender sends. It is kept until then.
  let owner: AnyObject
}
