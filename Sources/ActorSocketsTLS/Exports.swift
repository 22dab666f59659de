// The streams and errors in the API of TLS need no second import.
@_exported public import ActorSockets
