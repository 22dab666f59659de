/// The text of `sockcat --help`.
enum Usage {
  static let text = """
    sockcat \(SockcatCommand.version): netcat on ActorSockets

    sockcat connect ENDPOINT [options]
        Sends standard input to the peer, and prints what the peer sends on standard
        output. The end of input closes the sending direction only. Ends when both
        directions have ended; if standard input is a terminal, when the peer has finished.
          --timeout S           gives up connecting after S seconds
          --idle-timeout S      gives up when no byte has moved for S seconds
          -4, -6                connects over IPv4 only, or over IPv6 only
          --source SOURCE       connects from an address or an interface, with or without a
                                port: 192.0.2.1, eth0, eth0:8082
          --capture FILE        records the connection for Wireshark, with TLS in plain text, in a
                                file that only you may read; replaces FILE
          --tls                 encrypts the connection, and continues only if the server's
                                certificate is valid for the name in ENDPOINT
          --starttls P          the same, after the plain-text beginning of protocol P: smtp, imap
                                or postgres. Standard input is sent only when it is encrypted
          --ca FILE             trusts the authorities in FILE instead of the system's
          --server-name N       the name that the certificate must be for, if not ENDPOINT's
          --alpn A,B            offers these application protocols, preferred first
          --cert FILE, --key FILE
                                shows this certificate to servers that ask for one; the key may
                                be in the same file
          --insecure            accepts any certificate: anyone on the network path can read and
                                change everything
          -v                    prints the result of the handshake on standard error: version,
                                cipher, ALPN, the server's name, and whether it was verified

    sockcat listen ENDPOINT [options]
        Prints "listening on ADDRESS" on standard error. Without a service, joins one
        connection to standard input and output. SIGTERM and SIGINT stop listening and let
        connections finish; a second one aborts them.
          --echo                sends everything back
          --discard             reads everything and sends nothing
          --http                answers every GET and HEAD with a short page
          --chat                sends every line to all other connections
          --once                serves one connection, then exits
          --on pool|reactor     where services run: on Swift's threads (the default) or
                                on the one thread of the sockets
          --max-connections N   serves at most N connections of a socket at a time;
                                others wait
          --timeout S           gives up when nobody has connected after S seconds
                                (with --once or without a service)
          --idle-timeout S      ends a connection on which no byte has moved for S seconds
          --capture FILE        as for connect
          --tls                 encrypts all connections; it needs a certificate
          --cert FILE, --key FILE
                                the certificate with the intermediate certificates, and its
                                key, which may be in the same file
          --client-ca FILE      requires client certificates from the authorities in FILE
          --alpn A,B            the supported application protocols, preferred first; clients
                                that offer none of them are refused
          -v                    prints the result of each handshake on standard error, and why
                                a handshake failed

    sockcat proxy LISTEN TARGET [options]
        Joins every connection with a new one to TARGET, and forwards bytes, ends and
        resets in both directions. If TARGET cannot be reached, prints the reason and
        resets the connection. Announces its address and stops as listen does.
          --on pool|reactor, --max-connections N
                                as for listen
          --timeout S           gives up connecting to TARGET after S seconds
          --idle-timeout S      ends a pair on which no byte has moved for S seconds

    sockcat udp-listen ENDPOINT [options]
        Prints "listening on ADDRESS" on standard error, and each datagram as a line on
        standard output: the sender's address, the length, the bytes. Bytes that are not
        printable ASCII are written as \\n, \\r, \\t or \\xNN, the backslash as \\\\. A "+" after
        the length means that the datagram was longer. SIGTERM and SIGINT end it.
          --echo                sends each datagram back as well
          --join GROUP          receives what is sent to a multicast group; may be repeated.
                                Several programs may then listen on the port
          --interface I         the interface to join groups on: its name or an address
          --count N             ends after N datagrams
          --idle-timeout S      gives up when nothing has arrived for S seconds

    sockcat udp-send ENDPOINT [options]
        Sends each line of standard input as a datagram, without its newline.
          --whole               sends all of standard input as one datagram
          --wait S              prints answers, as udp-listen does, until S seconds after
                                the last datagram was sent
          --broadcast           allows sending to broadcast addresses
          --ttl N               the number of routers that the datagrams may pass
          --interface I         the interface through which datagrams leave to a multicast group
          -4, -6                sends over IPv4 only, or over IPv6 only
          --source SOURCE       sends from an address or an interface, as for connect; from
                                unix:/path or unix:@name

    sockcat demo                shows the library at work, on this machine
    sockcat --help, sockcat --version

    Endpoints: host:port, [IPv6]:port, :port, unix:/path, unix:@name. Listening on port 0
    uses a free port. Listening on systemd: uses all sockets that systemd passes to the
    program, and systemd:NAME uses those of that name. S may have a fraction.

    Exit status: 0 success, 1 input or output failed, 2 usage, 3 a certificate was not
    accepted, by either side, 4 a time-out.

    """
}
