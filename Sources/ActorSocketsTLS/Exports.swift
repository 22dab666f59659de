// The streams and errors that TLS is about need no second import.
@_exported public import ActorSockets
