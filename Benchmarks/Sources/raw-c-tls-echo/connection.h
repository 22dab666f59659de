// One TLS connection of the server: what it does with bytes, on a socket that epoll watches.

#ifndef CONNECTION_H
#define CONNECTION_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum mode {
  MODE_ECHO,    // sends back what comes
  MODE_SINK,    // reads and does nothing with it
  MODE_SOURCE,  // after the first byte that comes, sends blocks as long as the peer takes them
};

struct connection;

// To be called once, before the first connection. `own_bio`: OpenSSL's end of the sockets is that of socket_bio.h.
void connections_prepare(enum mode mode, bool own_bio);

// Takes the descriptor over, which epoll watches edge-triggered, for everything; NULL if there is no memory.
struct connection *connection_open(SSL_CTX *context, int fd);

// Goes on until the socket is empty or full. False if the connection ended.
bool connection_advance(struct connection *connection, uint32_t events);

// Says good-bye to the peer unless the connection is broken.
void connection_close(struct connection *connection);

#endif
