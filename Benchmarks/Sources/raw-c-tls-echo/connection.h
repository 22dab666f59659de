// One TLS connection of the server: what it does with bytes, on a socket that epoll watches.

#ifndef CONNECTION_H
#define CONNECTION_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <stddef.h>

enum mode {
  MODE_ECHO,    // sends back what comes
  MODE_SINK,    // reads and does nothing with it
  MODE_SOURCE,  // after the first byte that comes, sends blocks as long as the peer takes them
};

enum { BLOCK_SIZE = 16 * 1024 };

struct connection;

// To be called once, before the first connection.
void connections_prepare(enum mode mode);

// What epoll has to report: the peer's bytes and end, and room in the socket.
// Takes the descriptor over; NULL if there is no memory.
struct connection *connection_open(SSL_CTX *context, int fd);

// Goes on until the socket is empty or full. False if the connection ended.
bool connection_advance(struct connection *connection);

// Says good-bye to the peer unless the connection is broken.
void connection_close(struct connection *connection);

#endif
