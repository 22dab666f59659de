// `reactor: .shared` and `SocketAddress` need no second import.
@_exported public import EpollReactor
@_exported public import SocketSystem
