// OpenSSL's end of a socket, knowing what edge-triggered epoll knows: after a short recv there is nothing more to receive
// before the next edge, and a recv that would only say EAGAIN is saved. (OpenSSL's own BIO of a socket cannot know.)

#ifndef SOCKET_BIO_H
#define SOCKET_BIO_H

#include <openssl/bio.h>
#include <stdbool.h>

struct edge_socket {
  int fd;
  bool drained;         // the last recv emptied the socket: only a new edge makes another one worthwhile
  bool short_is_empty;  // false once the peer's end or an error was announced, which a short recv can hide
};

// NULL without memory. The socket outlives the BIO.
BIO *socket_bio(struct edge_socket *socket);

#endif
