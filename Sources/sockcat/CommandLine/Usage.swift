/// The text of `sockcat --help`.
enum Usage {
  static let text = """
    sockcat \(SockcatCommand.version): netcat on ActorSockets

    sockcat connect ENDPOINT [options]
        Sends standard input to the peer, and what the peer sends to standard output.
        The end of input half-closes. Ends when both directions have ended; if standard
        input is a terminal, when the peer's has.
          --timeout S           gives up connecting after S seconds
          --idle-timeout S      gives up when nothing has been moved for S seconds
          -4, -6                connects over IPv4 or IPv6 alone
          --source SOURCE       connects from an address or an interface, with or without a
                                port: 192.0.2.1, eth0, eth0:8082
          --tls                 encrypts the connection, and goes on only if the server's
                                certificate is good for the name in ENDPOINT
          --starttls P          the same, behind the plain beginning of a protocol P: smtp, imap
                                or postgres. Standard input is joined when it is encrypted
          --ca FILE             trusts the authorities in FILE, and not the system's
          --server-name N       the name that the certificate must be for, if not ENDPOINT's
          --alpn A,B            offers these application protocols, most wanted first
          --cert FILE, --key FILE
                                shows this certificate to servers that ask for one; the key may
                                be in the same file
          --insecure            takes any certificate: whoever is in between can read and change
                                everything
          -v                    prints what was agreed on, on standard error: version, cipher,
                                ALPN, who the server is, and whether that was verified

    sockcat listen ENDPOINT [options]
        Prints "listening on ADDRESS" on standard error. Without a service, joins one
        connection to standard input and output. SIGTERM and SIGINT stop listening and let
        connections finish; a second one aborts them.
          --echo                sends everything back
          --discard             reads everything and says nothing
          --http                answers every GET and HEAD with a short page
          --chat                passes every line on to all other connections
          --once                serves one connection, then exits
          --on pool|reactor     where services run: on Swift's threads (the default) or
                                on the one thread of the sockets
          --max-connections N   serves at most N connections of a socket at a time;
                                others wait
          --timeout S           gives up when nobody has connected after S seconds
                                (with --once or without a service)
          --idle-timeout S      ends a connection that has moved nothing for S seconds
          --tls                 encrypts all connections; it needs a certificate
          --cert FILE, --key FILE
                                the certificate, with those between it and the root, and its
                                key, which may be in the same file
          --client-ca FILE      demands certificates of the authorities in FILE from clients
          --alpn A,B            the application protocols that are spoken, most wanted first;
                                clients that offer none of them are refused
          -v                    prints what was agreed on with each client, on standard error,
                                and why a handshake failed

    sockcat proxy LISTEN TARGET [options]
        Connects every connection to TARGET and passes on what either sends, its end and
        its reset. If TARGET cannot be reached, says why and resets the connection.
        Announces its address and stops as listen does.
          --on pool|reactor, --max-connections N
                                as for listen
          --timeout S           gives up connecting to TARGET after S seconds
          --idle-timeout S      ends a pair that has moved nothing for S seconds

    sockcat udp-listen ENDPOINT [options]
        Prints "listening on ADDRESS" on standard error, and each datagram as a line on
        standard output: the sender's address, the length, the bytes. Bytes that are not
        printable ASCII are written as \\n, \\r, \\t or \\xNN, the backslash as \\\\. A "+" behind
        the length says that there were more. SIGTERM and SIGINT end it.
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
          --ttl N               how many routers the datagrams may pass
          --interface I         the interface that datagrams to a multicast group leave by
          -4, -6                sends over IPv4 or IPv6 alone
          --source SOURCE       sends from an address or an interface, as for connect; from
                                unix:/path or unix:@name

    sockcat demo                shows the library at work, on this machine
    sockcat --help, sockcat --version

    Endpoints: host:port, [IPv6]:port, :port, unix:/path, unix:@name. Listening on port 0
    takes a free port; listening on systemd: takes all sockets that systemd passes to the
    program, systemd:NAME those of that name. S may have a fraction.

    Exit status: 0 all went well, 1 input or output failed, 2 usage, 3 a certificate was not
    accepted, by either side, 4 a time-out.

    """
}
