// Connections that come, echo one request, check it and go: what opening and closing cost the server.

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "histogram.h"
#include "options.h"
#include "pattern.h"
#include "process.h"
#include "report.h"

enum { EVENTS_PER_WAIT = 256, WAIT_MILLISECONDS = 20, LARGEST = 16 * 1024 };

static const uint64_t SECOND = 1000000000;
static const uint64_t LAST_ANSWERS_WITHIN = 2 * 1000000000ull;

// A place for one connection after the other.
struct place {
  int fd;  // -1 when there is none
  bool sent;
  unsigned echoed;
  uint64_t started;
  char request[LARGEST + PATTERN_WORD];
};

struct churn {
  const struct options *options;
  int epoll;
  struct place *places;
  uint64_t random;
  unsigned open;
  bool opening;  // false when the time is over
  unsigned turn;
  uint64_t completed;
  uint64_t failed;
  uint64_t wrong;  // of those, the ones on which wrong bytes came back
  struct histogram times;
  char received[LARGEST + 1];
};

static void fail(struct churn *churn, const char *what) {
  if (churn->failed == 0) fprintf(stderr, "load: %s\n", what);
  churn->failed++;
}

static void leave(struct churn *churn, struct place *place) {
  close(place->fd);
  place->fd = -1;
  churn->open--;
}

static void come(struct churn *churn, struct place *place) {
  place->started = monotonic_ns();
  place->sent = false;
  place->echoed = 0;
  fill_pattern(&churn->random, place->request, churn->options->size);
  place->fd = target_begin_connecting(&churn->options->target, churn->turn++);
  if (place->fd < 0) {
    fail(churn, strerror(errno));
    return;
  }
  churn->open++;
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = place};
  if (epoll_ctl(churn->epoll, EPOLL_CTL_ADD, place->fd, &event) == 0) return;
  fail(churn, strerror(errno));
  leave(churn, place);
}

// A request fits into a fresh socket's buffer.
static bool send_request(struct churn *churn, struct place *place) {
  ssize_t n = send(place->fd, place->request, churn->options->size, MSG_NOSIGNAL);
  if (n < 0 && errno == EAGAIN) return true;  // not connected yet
  place->sent = n == (ssize_t)churn->options->size;
  return place->sent;
}

// False if the connection is of no use any more: what came is wrong, or it was closed.
static bool receive_answer(struct churn *churn, struct place *place) {
  ssize_t n = recv(place->fd, churn->received, sizeof churn->received, 0);
  if (n < 0 && errno == EAGAIN) return true;
  if (n <= 0) return false;
  if ((size_t)n > churn->options->size - place->echoed || memcmp(churn->received, place->request + place->echoed, (size_t)n)) {
    churn->wrong++;
    return false;
  }
  place->echoed += (unsigned)n;
  return true;
}

static void advance(struct churn *churn, struct place *place, uint32_t events) {
  if (place->fd < 0) return;
  bool good = place->sent || send_request(churn, place);
  if (good && place->sent && (events & EPOLLIN)) good = receive_answer(churn, place);
  if (!good) fail(churn, "a connection failed, or wrong bytes came back");
  if (good && place->echoed < churn->options->size) return;
  if (good) {
    histogram_add(&churn->times, monotonic_ns() - place->started);
    churn->completed++;
  }
  leave(churn, place);
  if (churn->opening && wants_another(churn->options, churn->completed + churn->open)) come(churn, place);
}

// Ends at the deadline, or when no connection is left.
static void run_until(struct churn *churn, uint64_t deadline) {
  struct epoll_event events[EVENTS_PER_WAIT];
  while (churn->open > 0 && monotonic_ns() < deadline) {
    int count = epoll_wait(churn->epoll, events, EVENTS_PER_WAIT, WAIT_MILLISECONDS);
    for (int i = 0; i < count; i++) advance(churn, events[i].data.ptr, events[i].events);
  }
}

static int measure(struct churn *churn) {
  static struct measured measured;
  struct sample *start = &measured.start, *end = &measured.end;
  churn->opening = true;
  for (unsigned i = 0; i < churn->options->connections && wants_another(churn->options, i); i++) {
    come(churn, &churn->places[i]);
  }
  run_until(churn, monotonic_ns() + (uint64_t)(churn->options->warmup * (double)SECOND));
  histogram_clear(&churn->times);
  if (!take_sample(churn->options->pid, start)) return 1;
  run_until(churn, start->time + (uint64_t)(churn->options->seconds * (double)SECOND));
  if (!take_sample(churn->options->pid, end)) return 1;
  measured.latencies = churn->times;

  churn->opening = false;
  run_until(churn, end->time + LAST_ANSWERS_WITHIN);
  print_measured(churn->options, &measured, churn->completed);
  printf(", \"errors\": %" PRIu64 "}\n", churn->failed + churn->open);
  bool complete = churn->open == 0 && churn->completed >= churn->options->requests;
  return exit_status(complete && churn->failed == 0, churn->wrong, measured.latencies.total);
}

int run_churn(const struct options *options) {
  static struct churn churn;
  if (options->size > LARGEST) {
    fprintf(stderr, "load: a request of a churn has at most %d bytes\n", LARGEST);
    return 2;
  }
  churn.options = options;
  churn.epoll = epoll_create1(EPOLL_CLOEXEC);
  churn.places = calloc(options->connections, sizeof *churn.places);
  if (churn.epoll < 0 || !churn.places) {
    perror("load");
    return 1;
  }
  return measure(&churn);
}
