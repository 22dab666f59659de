#include "connection.h"

#include <openssl/err.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "socket_bio.h"

enum { BLOCK_SIZE = 16 * 1024 };

// What an operation of OpenSSL came to.
enum outcome {
  DONE,
  BLOCKED,  // the next edge of the socket tells when to try again
  ENDED,    // the peer said good-bye
  FAILED,
};

// What must survive between two events. An idle connection holds no buffer.
struct connection {
  struct edge_socket socket;
  SSL *ssl;
  bool asked;    // of a source: the first byte came
  bool broken;   // nothing may be sent any more, not even a good-bye
  char *unsent;  // a record's bytes whose sending has to be repeated, or NULL
  size_t unsent_count;
};

static enum mode mode;
static bool uses_own_bio;
// All connections receive into this one: nothing in it outlives the handling of an event.
static char scratch[BLOCK_SIZE];
// What a source sends. The load generator compares.
static char block[BLOCK_SIZE];

void connections_prepare(enum mode chosen, bool own_bio) {
  mode = chosen;
  uses_own_bio = own_bio;
  for (unsigned i = 0; i < BLOCK_SIZE; i++) block[i] = (char)(i % 251);
}

static bool attach(struct connection *connection) {
  if (!uses_own_bio) return SSL_set_fd(connection->ssl, connection->socket.fd) == 1;
  BIO *bio = socket_bio(&connection->socket);
  if (bio) SSL_set_bio(connection->ssl, bio, bio);
  return bio != NULL;
}

struct connection *connection_open(SSL_CTX *context, int fd) {
  struct connection *connection = calloc(1, sizeof *connection);
  if (!connection) return NULL;
  connection->socket = (struct edge_socket){.fd = fd, .drained = true, .short_is_empty = true};
  connection->ssl = SSL_new(context);
  if (!connection->ssl || !attach(connection)) {
    SSL_free(connection->ssl);
    free(connection);
    return NULL;
  }
  SSL_set_accept_state(connection->ssl);
  return connection;
}

void connection_close(struct connection *connection) {
  // Sent, and not waited for: the peer has said its own, or is not going to.
  if (!connection->broken) SSL_shutdown(connection->ssl);
  // The queue of errors belongs to the thread: what is left in it would be found by the next connection.
  ERR_clear_error();
  SSL_free(connection->ssl);
  close(connection->socket.fd);
  free(connection->unsent);
  free(connection);
}

static enum outcome outcome_of(struct connection *connection, int result) {
  if (result > 0) return DONE;
  switch (SSL_get_error(connection->ssl, result)) {
    case SSL_ERROR_WANT_READ:
    case SSL_ERROR_WANT_WRITE: return BLOCKED;
    case SSL_ERROR_ZERO_RETURN: return ENDED;
    default: connection->broken = true; return FAILED;
  }
}

static bool keep_unsent(struct connection *connection, const char *bytes, size_t count) {
  connection->unsent = malloc(count);
  if (!connection->unsent) return false;
  memcpy(connection->unsent, bytes, count);
  connection->unsent_count = count;
  return true;
}

// One record. What blocks is kept and repeated: OpenSSL wants the same bytes again.
static enum outcome send_record(struct connection *connection, const char *bytes, size_t count) {
  size_t written;
  enum outcome outcome = outcome_of(connection, SSL_write_ex(connection->ssl, bytes, count, &written));
  if (outcome == BLOCKED && !keep_unsent(connection, bytes, count)) return FAILED;
  return outcome;
}

static enum outcome send_unsent(struct connection *connection) {
  size_t written;
  int result = SSL_write_ex(connection->ssl, connection->unsent, connection->unsent_count, &written);
  enum outcome outcome = outcome_of(connection, result);
  if (outcome == DONE) {
    free(connection->unsent);
    connection->unsent = NULL;
  }
  return outcome;
}

static enum outcome receive(struct connection *connection, size_t *count) {
  return outcome_of(connection, SSL_read_ex(connection->ssl, scratch, sizeof scratch, count));
}

static enum outcome echo(struct connection *connection) {
  size_t count;
  enum outcome outcome = receive(connection, &count);
  return outcome == DONE ? send_record(connection, scratch, count) : outcome;
}

// A block repeated is the same block: nothing has to be kept.
static enum outcome send_block(struct connection *connection) {
  size_t written;
  return outcome_of(connection, SSL_write_ex(connection->ssl, block, sizeof block, &written));
}

static enum outcome step(struct connection *connection) {
  size_t count;
  if (connection->unsent) return send_unsent(connection);
  if (mode == MODE_ECHO) return echo(connection);
  if (connection->asked) return send_block(connection);
  enum outcome outcome = receive(connection, &count);
  connection->asked = mode == MODE_SOURCE && outcome == DONE;
  return outcome;
}

// (A server for others would also bound the turns of one peer, and the time of its handshake.)
bool connection_advance(struct connection *connection, uint32_t events) {
  if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) connection->socket.short_is_empty = false;
  if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) connection->socket.drained = false;
  enum outcome outcome;
  do {
    outcome = step(connection);  // the first of them make the handshake
  } while (outcome == DONE);
  return outcome == BLOCKED;
}
