// A connection, encrypted or not, with the calls of a socket.

#ifndef STREAM_H
#define STREAM_H

#include <openssl/ssl.h>
#include <stdbool.h>
#include <sys/types.h>

#include "options.h"

struct stream {
  int fd;    // -1 when it is closed
  SSL *ssl;  // NULL of one that is not encrypted
};

// Connected, blocking, its operations timing out, and the handshake done if there is one. False with errno set.
bool stream_open(struct stream *stream, const struct options *options);

// From now on it does not block, and its events are reported with the data. False with errno set.
bool stream_watch(const struct stream *stream, int epoll, uint32_t events, void *data);

// As send and recv. A refusal of TLS is EPROTO, after it was printed.
ssize_t stream_send(struct stream *stream, const void *bytes, size_t count);
ssize_t stream_receive(struct stream *stream, void *bytes, size_t count);

void stream_close(struct stream *stream);

#endif
