#include "socket_bio.h"

#include <errno.h>
#include <sys/socket.h>

static int bio_read(BIO *bio, char *bytes, int count) {
  struct edge_socket *socket = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  if (socket->drained) {
    BIO_set_retry_read(bio);
    return -1;
  }
  ssize_t n = recv(socket->fd, bytes, (size_t)count, 0);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) {
    socket->drained = errno == EAGAIN;
    BIO_set_retry_read(bio);
  } else {
    socket->drained = socket->short_is_empty && n < count;
  }
  if (n == 0) BIO_set_flags(bio, BIO_FLAGS_IN_EOF);
  return (int)n;
}

static int bio_write(BIO *bio, const char *bytes, int count) {
  struct edge_socket *socket = BIO_get_data(bio);
  BIO_clear_retry_flags(bio);
  ssize_t n = send(socket->fd, bytes, (size_t)count, MSG_NOSIGNAL);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
  return (int)n;
}

static long bio_control(BIO *bio, int command, long number, void *pointer) {
  (void)number, (void)pointer;
  if (command == BIO_CTRL_EOF) return BIO_test_flags(bio, BIO_FLAGS_IN_EOF) != 0;
  return command == BIO_CTRL_FLUSH;  // nothing is kept back
}

BIO *socket_bio(struct edge_socket *socket) {
  static BIO_METHOD *method;
  if (!method) {
    method = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "edge-triggered socket");
    if (!method) return NULL;
    BIO_meth_set_read(method, bio_read);
    BIO_meth_set_write(method, bio_write);
    BIO_meth_set_ctrl(method, bio_control);
  }
  BIO *bio = BIO_new(method);
  if (!bio) return NULL;
  BIO_set_data(bio, socket);
  BIO_set_init(bio, 1);
  return bio;
}
