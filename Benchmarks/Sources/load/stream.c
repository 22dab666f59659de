#include "stream.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "tls.h"

// -1 with errno as a socket would set it, or 0 at the end.
static ssize_t failure_of(struct stream *stream, int result) {
  int error = errno;
  switch (tls_outcome_of(stream->ssl, result)) {
    case TLS_ENDED: return 0;
    case TLS_BLOCKED: errno = EAGAIN; return -1;
    default: break;
  }
  tls_print_errors("TLS failed");
  errno = error == ECONNRESET || error == EPIPE ? error : EPROTO;
  return -1;
}

static bool shake_hands(struct stream *stream) {
  static SSL_CTX *context;
  if (!context) context = tls_context();
  stream->ssl = context ? tls_client(context, stream->fd) : NULL;
  if (!stream->ssl) {
    errno = ENOMEM;
    return false;
  }
  errno = 0;
  int result = SSL_connect(stream->ssl);
  return result == 1 || failure_of(stream, result) > 0;
}

bool stream_open(struct stream *stream, const struct options *options) {
  stream->ssl = NULL;
  stream->fd = target_connect(&options->target);
  return stream->fd >= 0 && (!options->encrypted || shake_hands(stream));
}

bool stream_watch(const struct stream *stream, int epoll, uint32_t events, void *data) {
  struct epoll_event event = {.events = events, .data.ptr = data};
  return fcntl(stream->fd, F_SETFL, O_NONBLOCK) == 0 && epoll_ctl(epoll, EPOLL_CTL_ADD, stream->fd, &event) == 0;
}

ssize_t stream_send(struct stream *stream, const void *bytes, size_t count) {
  if (!stream->ssl) return send(stream->fd, bytes, count, MSG_NOSIGNAL);
  size_t sent;
  errno = 0;
  int result = SSL_write_ex(stream->ssl, bytes, count, &sent);
  return result == 1 ? (ssize_t)sent : failure_of(stream, result);
}

ssize_t stream_receive(struct stream *stream, void *bytes, size_t count) {
  if (!stream->ssl) return recv(stream->fd, bytes, count, 0);
  size_t received;
  errno = 0;
  int result = SSL_read_ex(stream->ssl, bytes, count, &received);
  return result == 1 ? (ssize_t)received : failure_of(stream, result);
}

void stream_close(struct stream *stream) {
  SSL_free(stream->ssl);
  stream->ssl = NULL;
  close(stream->fd);
  stream->fd = -1;
}
