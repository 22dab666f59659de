// One message to everybody: one connection sends a message, and the server sends it to all of them. The next one follows when all have
// got it. A request is a message that has arrived at one connection; the latencies are those of the last one to get it.

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

enum { MOST_OF_A_MESSAGE = 1024, EVENTS_PER_WAIT = 256, MOST_TRIES = 50, QUIET_MS = 300 };

static const uint64_t SECOND = 1000000000;
static const uint64_t EVERYBODY_WITHIN = 10 * 1000000000ull;

struct listener {
  struct stream stream;
  unsigned received;  // bytes of the message
};

struct fanout {
  const struct options *options;
  int epoll;
  struct listener *listeners;
  unsigned missing;  // connections that have not got the message yet
  uint64_t random;
  uint64_t delivered;
  uint64_t wrong_bytes;
  bool failed;
  struct histogram latencies;
  char message[MOST_OF_A_MESSAGE + PATTERN_WORD];
};

static void fail(struct fanout *fanout, const char *what) {
  if (!fanout->failed) fprintf(stderr, "load: %s\n", what);
  fanout->failed = true;
}

static bool open_listeners(struct fanout *fanout) {
  for (unsigned i = 0; i < fanout->options->connections; i++) {
    struct listener *listener = &fanout->listeners[i];
    if (stream_open(&listener->stream, fanout->options) &&
        stream_watch(&listener->stream, fanout->epoll, EPOLLIN | EPOLLRDHUP, listener))
      continue;
    fprintf(stderr, "load: connection %u: %s\n", i + 1, strerror(errno));
    return false;
  }
  return true;
}

static void take(struct fanout *fanout, struct listener *listener) {
  char bytes[MOST_OF_A_MESSAGE + 1];
  ssize_t n = stream_receive(&listener->stream, bytes, sizeof bytes);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return fail(fanout, n == 0 ? "the server closed a connection" : strerror(errno));
  size_t rest = fanout->options->size - listener->received, count = (size_t)n;
  size_t surplus = count > rest ? count - rest : 0;
  fanout->wrong_bytes += surplus + count_differences(bytes, fanout->message + listener->received, count - surplus);
  if (fanout->wrong_bytes > 0) return fail(fanout, "wrong bytes came");
  listener->received += (unsigned)count;
  if (listener->received < fanout->options->size) return;
  fanout->missing--;
  fanout->delivered++;
}

// Sends a message, and waits until everybody has it.
static bool deliver(struct fanout *fanout) {
  struct epoll_event events[EVENTS_PER_WAIT];
  unsigned size = fanout->options->size;
  for (unsigned i = 0; i < fanout->options->connections; i++) fanout->listeners[i].received = 0;
  fanout->missing = fanout->options->connections;
  fill_pattern(&fanout->random, fanout->message, size);
  uint64_t start = monotonic_ns();
  if (stream_send(&fanout->listeners[0].stream, fanout->message, size) != (ssize_t)size) {
    fail(fanout, "a message could not be sent");
  }
  while (fanout->missing > 0 && !fanout->failed) {
    if (monotonic_ns() > start + EVERYBODY_WITHIN) fail(fanout, "some connections did not get a message");
    int count = epoll_wait(fanout->epoll, events, EVENTS_PER_WAIT, 100);
    for (int i = 0; i < count; i++) take(fanout, events[i].data.ptr);
  }
  histogram_add(&fanout->latencies, monotonic_ns() - start);
  return !fanout->failed;
}

// A server may accept a connection before it sends messages to it. So messages are sent until one has reached everybody.
static bool reach_everybody(struct fanout *fanout) {
  struct epoll_event events[EVENTS_PER_WAIT];
  unsigned size = fanout->options->size, reached = 0;
  for (int tries = 0; tries < MOST_TRIES; tries++) {
    for (unsigned i = 0; i < fanout->options->connections; i++) fanout->listeners[i].received = 0;
    fill_pattern(&fanout->random, fanout->message, size);
    if (stream_send(&fanout->listeners[0].stream, fanout->message, size) != (ssize_t)size) break;
    // Until it is quiet: bytes that come late must not be taken for the next message.
    for (int count; (count = epoll_wait(fanout->epoll, events, EVENTS_PER_WAIT, QUIET_MS)) > 0;) {
      for (int i = 0; i < count; i++) {
        struct listener *listener = events[i].data.ptr;
        char bytes[MOST_OF_A_MESSAGE];
        ssize_t n = stream_receive(&listener->stream, bytes, sizeof bytes);
        if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR)) {
          fprintf(stderr, "load: the server closed a connection\n");
          return false;
        }
        if (n > 0) listener->received += (unsigned)n;
      }
    }
    reached = 0;
    for (unsigned i = 0; i < fanout->options->connections; i++) reached += fanout->listeners[i].received >= size;
    if (reached == fanout->options->connections) return true;
  }
  fprintf(stderr, "load: a message reached %u connections\n", reached);
  return false;
}

static bool deliver_until(struct fanout *fanout, uint64_t end) {
  do {
    if (!deliver(fanout)) return false;
  } while (monotonic_ns() < end);
  return true;
}

static int measure(struct fanout *fanout) {
  static struct measured measured;
  static const struct histogram empty;
  const struct options *options = fanout->options;
  if (!reach_everybody(fanout)) return FAILED;
  if (!deliver_until(fanout, monotonic_ns() + (uint64_t)(options->warmup * (double)SECOND))) {
    return fanout->wrong_bytes > 0 ? WRONG_BYTES : FAILED;
  }
  fanout->latencies = empty;
  fanout->delivered = 0;
  if (!take_sample(options->pid, &measured.start)) return FAILED;
  bool good = deliver_until(fanout, measured.start.time + (uint64_t)(options->seconds * (double)SECOND));
  if (!take_sample(options->pid, &measured.end)) return FAILED;
  measured.latencies = fanout->latencies;
  double seconds = (double)(measured.end.time - measured.start.time) / 1e9;
  double cpu = (double)(measured.end.cpu - measured.start.cpu) / 1e3;
  print_measured(options, &measured, fanout->latencies.total);
  printf(", \"deliveries_per_second\": %.0f, \"server_cpu_us_per_delivery\": %.4f", (double)fanout->delivered / seconds,
         cpu / (double)fanout->delivered);
  printf(", \"wrong_bytes\": %" PRIu64 ", \"errors\": %d}\n", fanout->wrong_bytes, fanout->failed ? 1 : 0);
  return exit_status(good, fanout->wrong_bytes, fanout->delivered);
}

int run_fanout(const struct options *options) {
  static struct fanout fanout;
  if (options->size > MOST_OF_A_MESSAGE) {
    fprintf(stderr, "load: a message has more than %d bytes\n", MOST_OF_A_MESSAGE);
    return MISTAKE;
  }
  fanout.options = options;
  fanout.random = 1;
  fanout.epoll = epoll_create1(EPOLL_CLOEXEC);
  fanout.listeners = calloc(options->connections, sizeof *fanout.listeners);
  if (fanout.epoll < 0 || !fanout.listeners) {
    perror("load");
    return FAILED;
  }
  return open_listeners(&fanout) ? measure(&fanout) : FAILED;
}
