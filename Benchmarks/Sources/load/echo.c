// Echo load: each connection has one request in flight, and every byte that comes back is checked.

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>

#include "histogram.h"
#include "options.h"
#include "pattern.h"
#include "process.h"
#include "report.h"
#include "stream.h"

enum { EVENTS_PER_WAIT = 256, WAIT_MILLISECONDS = 20, RECEIVE_SIZE = 64 * 1024 + 1 };

static const uint64_t SECOND = 1000000000;
static const uint64_t LAST_ANSWERS_WITHIN = 2 * 1000000000ull;

struct connection {
  struct stream stream;
  unsigned sent;     // of the request in flight
  unsigned echoed;   // of it
  bool waiting;      // a request is in flight
  uint64_t started;  // when it was sent
  uint64_t random;   // where this connection's pattern has got to
  char *request;
};

struct load {
  const struct options *options;
  int epoll;
  struct connection *connections;
  unsigned in_flight;
  bool sending;        // false when the time is over: the last answers are awaited, no more is asked
  uint64_t completed;  // all of them, also outside the measured time
  uint64_t wrong_bytes;
  uint64_t failed_connections;
  struct histogram latencies;
  char received[RECEIVE_SIZE];
};

static void fail(struct load *load, struct connection *connection, const char *what) {
  if (load->failed_connections == 0) fprintf(stderr, "load: %s\n", what);
  load->failed_connections++;
  if (connection->waiting) load->in_flight--;
  connection->waiting = false;
  stream_close(&connection->stream);
}

static bool asks_on(const struct load *load) {
  return load->sending && wants_another(load->options, load->completed + load->in_flight);
}

static void begin_request(struct load *load, struct connection *connection, uint64_t now) {
  fill_pattern(&connection->random, connection->request, load->options->size);
  connection->sent = 0;
  connection->echoed = 0;
  connection->started = now;
  connection->waiting = true;
  load->in_flight++;
}

static void end_request(struct load *load, struct connection *connection) {
  uint64_t now = monotonic_ns();
  histogram_add(&load->latencies, now - connection->started);
  load->completed++;
  load->in_flight--;
  connection->waiting = false;
  if (asks_on(load)) begin_request(load, connection, now);
}

// False when no more can be sent now.
static bool send_some(struct load *load, struct connection *connection) {
  unsigned left = connection->waiting ? load->options->size - connection->sent : 0;
  if (left == 0) return false;
  ssize_t n = stream_send(&connection->stream, connection->request + connection->sent, left);
  if (n < 0) {
    if (errno == EINTR) return true;
    if (errno != EAGAIN) fail(load, connection, strerror(errno));
    return false;
  }
  connection->sent += (unsigned)n;
  return connection->sent < load->options->size;
}

// False if the bytes are not those that were sent and are still to come back.
static bool check(struct load *load, struct connection *connection, size_t count) {
  size_t expected = connection->waiting ? connection->sent - connection->echoed : 0;
  uint64_t wrong = count > expected ? count - expected : 0;
  wrong += count_differences(load->received, connection->request + connection->echoed, count - wrong);
  load->wrong_bytes += wrong;
  return wrong == 0;
}

// False when nothing more can be expected now.
static bool receive_some(struct load *load, struct connection *connection) {
  ssize_t n = stream_receive(&connection->stream, load->received, RECEIVE_SIZE);
  if (n < 0) {
    if (errno == EINTR) return true;
    if (errno != EAGAIN) fail(load, connection, strerror(errno));
    return false;
  }
  if (n == 0) {
    fail(load, connection, "the server closed a connection");
    return false;
  }
  if (!check(load, connection, (size_t)n)) {
    fail(load, connection, "wrong bytes came back");
    return false;
  }
  connection->echoed += (unsigned)n;
  if (connection->echoed == load->options->size) {
    end_request(load, connection);
    return false;  // nothing else is to come before the next request was sent
  }
  // Less came than the buffer holds, so the socket is empty and the next edge tells. But TLS gives one record at a time.
  return connection->stream.ssl != NULL;
}

// Registered edge-triggered: goes on until neither direction can.
static void advance(struct load *load, struct connection *connection, uint32_t events) {
  bool readable = events & ~(uint32_t)EPOLLOUT;
  while (readable && connection->stream.fd >= 0) readable = receive_some(load, connection);
  bool writable = true;
  while (writable && connection->stream.fd >= 0) writable = send_some(load, connection);
}

static bool open_connection(struct load *load, struct connection *connection, unsigned index) {
  if (!stream_open(&connection->stream, load->options)) return false;
  if (fcntl(connection->stream.fd, F_SETFL, O_NONBLOCK) < 0) return false;
  connection->random = (uint64_t)index << 32;
  connection->request = malloc(load->options->size + PATTERN_WORD);
  if (!connection->request) return false;
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = connection};
  return epoll_ctl(load->epoll, EPOLL_CTL_ADD, connection->stream.fd, &event) == 0;
}

static bool open_connections(struct load *load) {
  for (unsigned i = 0; i < load->options->connections; i++) {
    if (!open_connection(load, &load->connections[i], i)) {
      fprintf(stderr, "load: connection %u: %s\n", i + 1, strerror(errno));
      return false;
    }
  }
  return true;
}

static void begin_all(struct load *load) {
  load->sending = true;
  for (unsigned i = 0; i < load->options->connections && asks_on(load); i++) {
    begin_request(load, &load->connections[i], monotonic_ns());
    advance(load, &load->connections[i], 0);
  }
}

// Ends at the deadline, or when nothing is in flight any more.
static void run_until(struct load *load, uint64_t deadline) {
  struct epoll_event events[EVENTS_PER_WAIT];
  while (load->in_flight > 0 && monotonic_ns() < deadline) {
    int count = epoll_wait(load->epoll, events, EVENTS_PER_WAIT, WAIT_MILLISECONDS);
    for (int i = 0; i < count; i++) advance(load, events[i].data.ptr, events[i].events);
  }
}

static void print_result(const struct load *load, const struct measured *measured, unsigned unanswered) {
  uint64_t errors = load->wrong_bytes + load->failed_connections + unanswered;
  print_measured(load->options, measured, load->completed);
  printf(", \"wrong_bytes\": %" PRIu64 ", \"failed_connections\": %" PRIu64 ", \"unanswered\": %u, \"errors\": %" PRIu64
         "}\n",
         load->wrong_bytes, load->failed_connections, unanswered, errors);
}

static int measure(struct load *load) {
  static struct measured measured;
  struct sample *start = &measured.start, *end = &measured.end;
  begin_all(load);
  run_until(load, monotonic_ns() + (uint64_t)(load->options->warmup * (double)SECOND));
  histogram_clear(&load->latencies);
  if (!take_sample(load->options->pid, start)) return 1;
  run_until(load, start->time + (uint64_t)(load->options->seconds * (double)SECOND));
  if (!take_sample(load->options->pid, end)) return 1;
  measured.latencies = load->latencies;

  // What is still in flight must come back too, whole, though it is outside the measured time.
  load->sending = false;
  run_until(load, end->time + LAST_ANSWERS_WITHIN);

  print_result(load, &measured, load->in_flight);
  bool good = load->failed_connections == 0 && load->in_flight == 0 && measured.latencies.total > 0 &&
              load->completed >= load->options->requests;
  return good ? 0 : 1;
}

int run_echo(const struct options *options) {
  static struct load load;
  load.options = options;
  load.epoll = epoll_create1(EPOLL_CLOEXEC);
  load.connections = calloc(options->connections, sizeof *load.connections);
  if (load.epoll < 0 || !load.connections) {
    perror("load");
    return 1;
  }
  return open_connections(&load) ? measure(&load) : 1;
}
