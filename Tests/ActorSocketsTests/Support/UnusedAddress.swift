import SocketSystem
import TestSupport

/// An address of this machine at which no socket listens, so connections to it are refused.
func unusedAddress() throws -> SocketAddress { .ipv4(.loopback, port: try freePort()) }
