// Echo load: each connection has one request in flight, or several, and every byte that comes back is checked.

#include <errno.h>
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

enum { CONNECTIONS_AT_ONCE = 256, EVENTS_PER_WAIT = 256, WAIT_MILLISECONDS = 20, RECEIVE_SIZE = 64 * 1024 + 1 };

static const uint64_t SECOND = 1000000000;
static const uint64_t FIRST_ANSWERS_WITHIN = 10 * 1000000000ull;
static const uint64_t LAST_ANSWERS_WITHIN = 5 * 1000000000ull;

// Requests are numbered. A request is at its number modulo those in flight in the window, and bytes are counted from the
// first request on, so that a count modulo the window's size is a place in it.
struct connection {
  struct stream stream;
  uint64_t begun;   // bytes of all requests so far
  uint64_t sent;    // of them
  uint64_t echoed;  // of those
  uint64_t random;  // where this connection's pattern has got to
  char *window;
  uint64_t *started;  // when the requests in the window were made
};

struct load {
  const struct options *options;
  int epoll;
  struct connection *connections;
  unsigned unheard;  // connections on which nothing was answered yet
  unsigned in_flight;
  bool sending;        // false when the time is over: the last answers are awaited, no more is asked
  uint64_t completed;  // all of them, also outside the measured time
  uint64_t wrong_bytes;
  uint64_t failed_connections;
  struct histogram latencies;
  char received[RECEIVE_SIZE];
};

static uint64_t window_size(const struct load *load) {
  return (uint64_t)load->options->size * load->options->in_flight;
}

static void fail(struct load *load, struct connection *connection, const char *what) {
  const unsigned size = load->options->size;
  if (load->failed_connections == 0) fprintf(stderr, "load: %s\n", what);
  load->failed_connections++;
  load->in_flight -= (unsigned)(connection->begun / size - connection->echoed / size);
  connection->begun = connection->sent = connection->echoed = 0;
  stream_close(&connection->stream);
}

static bool asks_on(const struct load *load) {
  return load->sending && wants_another(load->options, load->completed + load->in_flight);
}

static void begin_request(struct load *load, struct connection *connection, uint64_t now) {
  const unsigned size = load->options->size;
  fill_pattern(&connection->random, connection->window + connection->begun % window_size(load), size);
  connection->started[connection->begun / size % load->options->in_flight] = now;
  connection->begun += size;
  load->in_flight++;
}

static void end_request(struct load *load, struct connection *connection, uint64_t number, uint64_t now) {
  histogram_add(&load->latencies, now - connection->started[number % load->options->in_flight]);
  load->completed++;
  load->in_flight--;
  if (number == 0) load->unheard--;
  if (asks_on(load)) begin_request(load, connection, now);
}

// False when no more can be sent now.
static bool send_some(struct load *load, struct connection *connection) {
  uint64_t place = connection->sent % window_size(load);
  uint64_t left = connection->begun - connection->sent, to_end = window_size(load) - place;
  if (left == 0) return false;
  ssize_t n = stream_send(&connection->stream, connection->window + place, left < to_end ? left : to_end);
  if (n < 0) {
    if (errno == EINTR) return true;
    if (errno != EAGAIN) fail(load, connection, strerror(errno));
    return false;
  }
  connection->sent += (uint64_t)n;
  return connection->sent < connection->begun;
}

// False if the bytes are not those that were sent and are still to come back.
static bool check(struct load *load, struct connection *connection, uint64_t count) {
  uint64_t expected = connection->sent - connection->echoed;
  uint64_t surplus = count > expected ? count - expected : 0;
  uint64_t place = connection->echoed % window_size(load), to_end = window_size(load) - place;
  uint64_t first = count - surplus < to_end ? count - surplus : to_end;
  uint64_t wrong = surplus + count_differences(load->received, connection->window + place, first);
  wrong += count_differences(load->received + first, connection->window, count - surplus - first);
  load->wrong_bytes += wrong;
  return wrong == 0;
}

static void take_answers(struct load *load, struct connection *connection, uint64_t count) {
  const unsigned size = load->options->size;
  uint64_t number = connection->echoed / size, now = monotonic_ns();
  connection->echoed += count;
  for (; number < connection->echoed / size; number++) end_request(load, connection, number, now);
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
  if (!check(load, connection, (uint64_t)n)) {
    fail(load, connection, "wrong bytes came back");
    return false;
  }
  take_answers(load, connection, (uint64_t)n);
  // All that was sent is back. Or less came than the buffer holds, so the socket is empty and the next edge tells; but TLS
  // gives one record at a time.
  return connection->echoed < connection->sent && (connection->stream.ssl || n == RECEIVE_SIZE);
}

// Registered edge-triggered: goes on until neither direction can.
static void advance(struct load *load, struct connection *connection, uint32_t events) {
  bool readable = events & ~(uint32_t)EPOLLOUT;
  while (readable && connection->stream.fd >= 0) readable = receive_some(load, connection);
  bool writable = true;
  while (writable && connection->stream.fd >= 0) writable = send_some(load, connection);
}

// A byte there and back. The server has accepted this connection then, and all that were opened before it.
static bool is_served(struct stream *stream) {
  char answer = 0;
  if (stream_send(stream, "!", 1) != 1) return false;
  ssize_t n = stream_receive(stream, &answer, 1);
  if (n >= 0 && answer != '!') errno = n == 0 ? ECONNRESET : EBADMSG;
  return answer == '!';
}

static bool open_connection(struct load *load, struct connection *connection, unsigned index) {
  if (!stream_open(&connection->stream, load->options)) return false;
  if (index % CONNECTIONS_AT_ONCE == CONNECTIONS_AT_ONCE - 1 && !is_served(&connection->stream)) return false;
  connection->random = (uint64_t)index << 32;
  connection->window = malloc(window_size(load) + PATTERN_WORD);
  connection->started = calloc(load->options->in_flight, sizeof *connection->started);
  if (!connection->window || !connection->started) return false;
  return stream_watch(&connection->stream, load->epoll, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, connection);
}

// Not so many at once that the server's backlog overflows: what happens then would be the kernel's doing.
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
  load->unheard = load->options->connections;
  for (unsigned i = 0; i < load->options->connections && asks_on(load); i++) {
    for (unsigned j = 0; j < load->options->in_flight && asks_on(load); j++) {
      begin_request(load, &load->connections[i], monotonic_ns());
    }
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

// Not over before every connection was answered once, so that what their opening costs is not measured with the echoes. When
// requests are counted there is none: all of them are measured.
static void warm_up(struct load *load) {
  if (load->options->requests > 0) return;
  uint64_t start = monotonic_ns(), limit = start + FIRST_ANSWERS_WITHIN;
  run_until(load, start + (uint64_t)(load->options->warmup * (double)SECOND));
  while (load->unheard > 0 && load->in_flight > 0 && load->failed_connections == 0 && monotonic_ns() < limit) {
    run_until(load, monotonic_ns() + SECOND / 100);
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
  warm_up(load);
  histogram_clear(&load->latencies);
  if (!take_sample(load->options->pid, start)) return 1;
  run_until(load, start->time + (uint64_t)(load->options->seconds * (double)SECOND));
  if (!take_sample(load->options->pid, end)) return 1;
  measured.latencies = load->latencies;

  // What is still in flight must come back too, whole, though it is outside the measured time.
  load->sending = false;
  run_until(load, end->time + LAST_ANSWERS_WITHIN);

  if (load->in_flight > 0) fprintf(stderr, "load: %u requests were not answered\n", load->in_flight);
  print_result(load, &measured, load->in_flight);
  bool complete = load->in_flight == 0 && load->completed >= load->options->requests;
  return exit_status(complete && load->failed_connections == 0, load->wrong_bytes, measured.latencies.total);
}

int run_echo(const struct options *options) {
  static struct load load;
  // The pattern of a request goes on to a whole word, where the next request is already.
  if (options->in_flight > 1 && options->size % PATTERN_WORD != 0) {
    fprintf(stderr, "load: with several in flight, a request has a multiple of %d bytes\n", PATTERN_WORD);
    return MISTAKE;
  }
  load.options = options;
  load.epoll = epoll_create1(EPOLL_CLOEXEC);
  load.connections = calloc(options->connections, sizeof *load.connections);
  if (load.epoll < 0 || !load.connections) {
    perror("load");
    return 1;
  }
  return open_connections(&load) ? measure(&load) : 1;
}
