import Glibc

/// How a signal is handled now: sigaction(2).
enum SignalHandling: Equatable {
  case `default`, ignored, handler
}

func handling(of signal: Int32) -> SignalHandling {
  var action = sigaction()
  // SAFETY: the structure is valid for the call.
  unsafe sigaction(signal, nil, &action)
  let handler = unsafe unsafeBitCast(action.__sigaction_handler.sa_handler, to: Int.self)
  return handler == 0 ? .default : handler == 1 ? .ignored : .handler
}
