// Handshakes: connections that come, agree on keys and go, each with a new session or each with that of the one before it.
//
// The client says good-bye as soon as its own part of the handshake is done. It has gone well when the server, which then
// must have taken the whole handshake, says good-bye too. (On the way to that come the tickets.)

#include <errno.h>
#include <inttypes.h>
#include <openssl/err.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "histogram.h"
#include "options.h"
#include "process.h"
#include "report.h"
#include "tls.h"

enum { EVENTS_PER_WAIT = 256, WAIT_MILLISECONDS = 20 };

static const uint64_t SECOND = 1000000000;
static const uint64_t FIRST_ANSWERS_WITHIN = 10 * 1000000000ull;
static const uint64_t LAST_ANSWERS_WITHIN = 2 * 1000000000ull;

// A place for one connection after the other.
struct place {
  int fd;  // -1 when there is none
  SSL *ssl;
  bool leaving;          // the handshake is done, the good-bye sent
  bool resuming;         // it began with a session
  bool was_served;       // the first of its handshakes, which is a full one, is done
  SSL_SESSION *session;  // for the next one, or NULL
  uint64_t started;
};

struct handshakes {
  const struct options *options;
  SSL_CTX *context;
  int epoll;
  struct place *places;
  unsigned open;
  unsigned unserved;  // places
  bool opening;  // false when the time is over
  unsigned turn;
  uint64_t completed;
  uint64_t resumed;  // of them
  uint64_t failed;
  struct histogram times;
};

static void fail(struct handshakes *handshakes, const char *what) {
  if (handshakes->failed == 0) tls_print_errors(what);
  ERR_clear_error();
  handshakes->failed++;
}

static void leave(struct handshakes *handshakes, struct place *place) {
  SSL_free(place->ssl);
  close(place->fd);
  place->ssl = NULL;
  place->fd = -1;
  handshakes->open--;
}

// The server's newest ticket; it is ours with a result other than 0.
static int keep_session(SSL *ssl, SSL_SESSION *session) {
  struct place *place = SSL_get_app_data(ssl);
  SSL_SESSION_free(place->session);
  place->session = session;
  return 1;
}

static bool begin(struct handshakes *handshakes, struct place *place) {
  place->ssl = tls_client(handshakes->context, place->fd);
  if (!place->ssl) return false;
  SSL_set_app_data(place->ssl, place);
  place->leaving = false;
  place->resuming = place->session != NULL;
  if (place->resuming && SSL_set_session(place->ssl, place->session) != 1) return false;
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = place};
  return epoll_ctl(handshakes->epoll, EPOLL_CTL_ADD, place->fd, &event) == 0;
}

static void come(struct handshakes *handshakes, struct place *place) {
  place->started = monotonic_ns();
  place->fd = target_begin_connecting(&handshakes->options->target, handshakes->turn++);
  if (place->fd < 0) {
    fail(handshakes, strerror(errno));
    return;
  }
  handshakes->open++;
  if (begin(handshakes, place)) return;
  fail(handshakes, "no connection");
  leave(handshakes, place);
}

// DONE when the server said good-bye.
static enum tls_outcome advance(struct place *place) {
  if (!place->leaving) {
    enum tls_outcome outcome = tls_outcome_of(place->ssl, SSL_do_handshake(place->ssl));
    if (outcome != TLS_DONE) return outcome;
    if (SSL_session_reused(place->ssl) != place->resuming) return TLS_FAILED;
    if (SSL_shutdown(place->ssl) < 0) return TLS_FAILED;  // a few bytes: there is room for them
    place->leaving = true;
  }
  char byte;
  size_t count;
  enum tls_outcome outcome = tls_outcome_of(place->ssl, SSL_read_ex(place->ssl, &byte, 1, &count));
  if (outcome == TLS_DONE) return TLS_FAILED;  // nobody asked for data
  return outcome == TLS_ENDED ? TLS_DONE : outcome;
}

static void handle(struct handshakes *handshakes, struct place *place, uint32_t events) {
  if (place->fd < 0) return;
  // The first event is the one of the connection that was made.
  enum tls_outcome outcome = events & (EPOLLHUP | EPOLLERR) && !place->leaving ? TLS_FAILED : advance(place);
  if (outcome == TLS_BLOCKED) return;
  if (outcome == TLS_DONE) {
    histogram_add(&handshakes->times, monotonic_ns() - place->started);
    handshakes->completed++;
    handshakes->resumed += place->resuming;
    if (!place->was_served) handshakes->unserved--;
    place->was_served = true;
  } else {
    fail(handshakes, "a handshake failed, or was resumed and should not have been, or the reverse");
  }
  leave(handshakes, place);
  bool goes_on = wants_another(handshakes->options, handshakes->completed + handshakes->open);
  if (handshakes->opening && goes_on) come(handshakes, place);
}

// Ends at the deadline, or when no connection is left.
static void run_until(struct handshakes *handshakes, uint64_t deadline) {
  struct epoll_event events[EVENTS_PER_WAIT];
  while (handshakes->open > 0 && monotonic_ns() < deadline) {
    int count = epoll_wait(handshakes->epoll, events, EVENTS_PER_WAIT, WAIT_MILLISECONDS);
    for (int i = 0; i < count; i++) handle(handshakes, events[i].data.ptr, events[i].events);
  }
}

// Not over before every place had a handshake: the first of each is a full one. When requests are counted there is none.
static void warm_up(struct handshakes *handshakes) {
  if (handshakes->options->requests > 0) return;
  uint64_t start = monotonic_ns(), limit = start + FIRST_ANSWERS_WITHIN;
  run_until(handshakes, start + (uint64_t)(handshakes->options->warmup * (double)SECOND));
  while (handshakes->unserved > 0 && handshakes->failed == 0 && handshakes->open > 0 && monotonic_ns() < limit) {
    run_until(handshakes, monotonic_ns() + SECOND / 100);
  }
}

static int measure(struct handshakes *handshakes) {
  static struct measured measured;
  struct sample *start = &measured.start, *end = &measured.end;
  handshakes->opening = true;
  unsigned first = handshakes->unserved = handshakes->options->connections;
  for (unsigned i = 0; i < first && wants_another(handshakes->options, i); i++) {
    come(handshakes, &handshakes->places[i]);
  }
  warm_up(handshakes);
  histogram_clear(&handshakes->times);
  handshakes->resumed = 0;
  if (!take_sample(handshakes->options->pid, start)) return 1;
  run_until(handshakes, start->time + (uint64_t)(handshakes->options->seconds * (double)SECOND));
  if (!take_sample(handshakes->options->pid, end)) return 1;
  measured.latencies = handshakes->times;
  uint64_t resumed = handshakes->resumed;

  handshakes->opening = false;
  run_until(handshakes, end->time + LAST_ANSWERS_WITHIN);
  uint64_t of_the_other_kind = handshakes->options->resumes ? measured.latencies.total - resumed : resumed;
  print_measured(handshakes->options, &measured, handshakes->completed);
  printf(", \"resumed\": %" PRIu64 ", \"errors\": %" PRIu64 "}\n", resumed,
         handshakes->failed + handshakes->open + of_the_other_kind);
  bool complete = handshakes->open == 0 && handshakes->completed >= handshakes->options->requests;
  bool good = complete && handshakes->failed == 0 && of_the_other_kind == 0;
  return exit_status(good, 0, measured.latencies.total);
}

int run_tls_handshakes(const struct options *options) {
  static struct handshakes handshakes;
  if (options->resumes && options->requests > 0) {
    fprintf(stderr, "load: the first handshakes are full ones; --requests would count them\n");
    return 2;
  }
  handshakes.options = options;
  handshakes.context = tls_context();
  if (!handshakes.context) return 1;
  if (options->resumes) {
    SSL_CTX_set_session_cache_mode(handshakes.context, SSL_SESS_CACHE_CLIENT | SSL_SESS_CACHE_NO_INTERNAL);
    SSL_CTX_sess_set_new_cb(handshakes.context, keep_session);
  }
  handshakes.epoll = epoll_create1(EPOLL_CLOEXEC);
  handshakes.places = calloc(options->connections, sizeof *handshakes.places);
  if (handshakes.epoll < 0 || !handshakes.places) {
    perror("load");
    return 1;
  }
  return measure(&handshakes);
}
