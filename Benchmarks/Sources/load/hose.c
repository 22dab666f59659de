// A fire hose beside quiet connections: some stream as fast as they can, and what they sent comes back; the others send a small
// request now and then. What counts is how long those wait, and that nobody is left out.

#define _GNU_SOURCE

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

enum { BLOCK = 64 * 1024, MOST_OF_A_REQUEST = 1024, EVENTS_PER_WAIT = 256 };

static const uint64_t SECOND = 1000000000;
static const double QUIET_RATE = 2000;  // requests in a second, unless the arguments say otherwise
static const uint64_t LONGEST_WAIT = 1000000;
static const uint64_t LAST_ANSWERS_WITHIN = 5 * 1000000000ull;

// What an event belongs to: one that streams, or one that is quiet.
struct peer {
  struct stream stream;
  bool is_quiet;
  // Of one that streams: whether its socket may have room or bytes, it had when it was last tried; and how many went.
  bool ready;
  uint64_t sent;
  uint64_t echoed;
  uint64_t measured;  // of them, those in the measured time; before it ends, those before it
  // Of one that is quiet.
  bool waiting;
  unsigned answered;
  uint64_t started;
  char request[MOST_OF_A_REQUEST + PATTERN_WORD];
};

struct hose {
  const struct options *options;
  int epoll;
  struct peer *streaming;
  struct peer *quiet;
  unsigned next_streaming;
  unsigned next_quiet;
  uint64_t next_request;  // when
  uint64_t interval;      // between two requests
  bool sending;           // false when the time is over
  unsigned waiting;
  uint64_t measured_since;  // of the requests that are made from then on, the time is measured
  uint64_t measured_until;  // and not of those made from then on
  uint64_t skipped;  // requests that were not made because the one before was not answered
  uint64_t random;
  uint64_t completed;
  uint64_t longest;
  uint64_t wrong_bytes;
  uint64_t failed;
  struct histogram latencies;
  char pattern[2 * BLOCK + PATTERN_WORD];  // the same block twice, so that one can be compared from anywhere in it
  char received[BLOCK];
};

static void fail(struct hose *hose, struct peer *peer, const char *what) {
  if (hose->failed == 0) fprintf(stderr, "load: %s\n", what);
  hose->failed++;
  if (peer->waiting) hose->waiting--;
  peer->waiting = false;
  peer->ready = false;
  peer->sent = peer->echoed;
  stream_close(&peer->stream);
}

// As stream_receive, but 0 when nothing is there; what is wrong with the connection is dealt with.
static size_t receive(struct hose *hose, struct peer *peer, size_t most) {
  ssize_t n = stream_receive(&peer->stream, hose->received, most);
  if (n > 0) return (size_t)n;
  if (n == 0) fail(hose, peer, "the server closed a connection");
  else if (errno != EAGAIN && errno != EINTR) fail(hose, peer, strerror(errno));
  return 0;
}

static void count_wrong(struct hose *hose, struct peer *peer, uint64_t wrong) {
  if (wrong == 0) return;
  hose->wrong_bytes += wrong;
  fail(hose, peer, "wrong bytes came back");
}

// --- Those that stream ---

// Each begins somewhere else in the pattern, so that nobody's bytes pass for another's.
static const char *pattern_at(const struct hose *hose, const struct peer *peer, uint64_t position) {
  uint64_t index = (uint64_t)(peer - hose->streaming);
  return hose->pattern + (position + index * (BLOCK / 8 - 1)) % BLOCK;
}

static bool send_block(struct hose *hose, struct peer *peer) {
  ssize_t n = stream_send(&peer->stream, pattern_at(hose, peer, peer->sent), BLOCK);
  if (n < 0 && errno != EAGAIN && errno != EINTR) fail(hose, peer, strerror(errno));
  if (n > 0) peer->sent += (uint64_t)n;
  return n > 0;
}

static bool receive_block(struct hose *hose, struct peer *peer) {
  size_t count = receive(hose, peer, BLOCK);
  if (count == 0) return false;
  uint64_t expected = peer->sent - peer->echoed;
  uint64_t surplus = count > expected ? count - expected : 0;
  const char *pattern = pattern_at(hose, peer, peer->echoed);
  peer->echoed += count - surplus;
  count_wrong(hose, peer, surplus + count_differences(hose->received, pattern, count - surplus));
  return peer->stream.fd >= 0;
}

// One turn of one of them. False if none can do anything.
static bool stream_on(struct hose *hose) {
  for (unsigned tried = 0; tried < hose->options->connections; tried++) {
    struct peer *peer = &hose->streaming[hose->next_streaming];
    hose->next_streaming = (hose->next_streaming + 1) % hose->options->connections;
    if (!peer->ready) continue;
    bool sent = hose->sending && send_block(hose, peer);
    peer->ready = (peer->stream.fd >= 0 && receive_block(hose, peer)) || (sent && peer->stream.fd >= 0);
    return true;
  }
  return false;
}

// --- Those that are quiet ---

static void begin_request(struct hose *hose, struct peer *peer, uint64_t now) {
  if (peer->stream.fd < 0) return;
  fill_pattern(&hose->random, peer->request, hose->options->size);
  // It fits: nothing else is in the socket's buffer.
  if (stream_send(&peer->stream, peer->request, hose->options->size) != (ssize_t)hose->options->size) {
    fail(hose, peer, "a small request could not be sent");
    return;
  }
  peer->started = now;
  peer->answered = 0;
  peer->waiting = true;
  hose->waiting++;
}

static void begin_due_requests(struct hose *hose, uint64_t now) {
  for (; hose->sending && hose->next_request <= now; hose->next_request += hose->interval) {
    struct peer *peer = &hose->quiet[hose->next_quiet];
    hose->next_quiet = (hose->next_quiet + 1) % hose->options->quiet;
    if (peer->waiting) hose->skipped++;
    else begin_request(hose, peer, now);
  }
}

// Also of an answer that comes after the measured time: those that wait longest must not be left out.
static void note_latency(struct hose *hose, const struct peer *peer) {
  if (peer->started < hose->measured_since || peer->started >= hose->measured_until) return;
  uint64_t latency = monotonic_ns() - peer->started;
  histogram_add(&hose->latencies, latency);
  if (latency > hose->longest) hose->longest = latency;
}

static void take_answer(struct hose *hose, struct peer *peer) {
  size_t count = receive(hose, peer, BLOCK);
  if (count == 0) return;
  size_t expected = peer->waiting ? hose->options->size - peer->answered : 0;
  size_t surplus = count > expected ? count - expected : 0;
  uint64_t wrong = surplus + count_differences(hose->received, peer->request + peer->answered, count - surplus);
  count_wrong(hose, peer, wrong);
  peer->answered += (unsigned)count;
  if (wrong > 0 || peer->answered < hose->options->size) return;
  note_latency(hose, peer);
  hose->completed++;
  hose->waiting--;
  peer->waiting = false;
}

// --- All of them ---

static bool is_done(const struct hose *hose) {
  if (hose->sending || hose->waiting > 0) return false;
  for (unsigned i = 0; i < hose->options->connections; i++) {
    if (hose->streaming[i].sent != hose->streaming[i].echoed) return false;
  }
  return true;
}

// Looks for answers after every turn, so that they are not taken for later than they are.
static void run_until(struct hose *hose, uint64_t deadline) {
  struct epoll_event events[EVENTS_PER_WAIT];
  for (uint64_t now; (now = monotonic_ns()) < deadline && !is_done(hose);) {
    begin_due_requests(hose, now);
    // With nobody to stream, until the next request is due.
    uint64_t rest = stream_on(hose) ? 0 : hose->sending && hose->next_request > now ? hose->next_request - now : LONGEST_WAIT;
    struct timespec wait = {.tv_nsec = (long)(rest < LONGEST_WAIT ? rest : LONGEST_WAIT)};
    int count = epoll_pwait2(hose->epoll, events, EVENTS_PER_WAIT, &wait, NULL);
    for (int i = 0; i < count; i++) {
      struct peer *peer = events[i].data.ptr;
      if (peer->stream.fd < 0) continue;
      if (!peer->is_quiet) peer->ready = true;
      else if (events[i].events & ~(uint32_t)EPOLLOUT) take_answer(hose, peer);
    }
  }
}

static bool open_peer(struct hose *hose, struct peer *peer, bool is_quiet) {
  peer->is_quiet = is_quiet;
  peer->ready = !is_quiet;
  return stream_open(&peer->stream, hose->options) &&
         stream_watch(&peer->stream, hose->epoll, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, peer);
}

static bool open_peers(struct hose *hose, struct peer *peers, unsigned count, bool are_quiet) {
  for (unsigned i = 0; i < count; i++) {
    if (open_peer(hose, &peers[i], are_quiet)) continue;
    fprintf(stderr, "load: connection %u: %s\n", i + 1, strerror(errno));
    return false;
  }
  return true;
}

// Until all of the quiet ones were answered once: what their opening costs is not measured.
static bool ask_everybody(struct hose *hose) {
  uint64_t now = monotonic_ns();
  for (unsigned i = 0; i < hose->options->quiet; i++) begin_request(hose, &hose->quiet[i], now);
  run_until(hose, now + LAST_ANSWERS_WITHIN);
  if (hose->waiting > 0) fprintf(stderr, "load: some connections were not answered at all\n");
  return hose->waiting == 0 && hose->failed == 0;
}

static void print_result(const struct hose *hose, const struct measured *measured) {
  uint64_t bytes = 0, least = UINT64_MAX;
  for (unsigned i = 0; i < hose->options->connections; i++) {
    bytes += hose->streaming[i].measured;
    if (hose->streaming[i].measured < least) least = hose->streaming[i].measured;
  }
  double seconds = (double)(measured->end.time - measured->start.time) / 1e9;
  double cpu = (double)(measured->end.cpu - measured->start.cpu) / 1e3;
  print_measured(hose->options, measured, hose->completed);
  printf(", \"max_us\": %.2f, \"bytes_per_second\": %.0f, \"server_cpu_us_per_mib\": %.3f", (double)hose->longest / 1e3,
         (double)bytes / seconds, bytes > 0 ? cpu / ((double)bytes / 1048576) : 0.0);
  printf(", \"smallest_share\": %.3f, \"skipped\": %" PRIu64 ", \"unanswered\": %u",
         bytes > 0 ? (double)least * hose->options->connections / (double)bytes : 0.0, hose->skipped, hose->waiting);
  printf(", \"wrong_bytes\": %" PRIu64 ", \"errors\": %" PRIu64 "}\n", hose->wrong_bytes,
         hose->wrong_bytes + hose->failed + hose->waiting);
}

static void begin_streaming(struct hose *hose) {
  hose->sending = true;
  hose->next_request = monotonic_ns();
  for (unsigned i = 0; i < hose->options->connections; i++) hose->streaming[i].ready = true;
}

static void begin_measuring(struct hose *hose) {
  hose->measured_since = monotonic_ns();
  hose->skipped = 0;
  for (unsigned i = 0; i < hose->options->connections; i++) {
    hose->streaming[i].measured = hose->streaming[i].echoed;
  }
}

static void end_measuring(struct hose *hose) {
  hose->measured_until = monotonic_ns();
  for (unsigned i = 0; i < hose->options->connections; i++) {
    hose->streaming[i].measured = hose->streaming[i].echoed - hose->streaming[i].measured;
  }
}

static int measure(struct hose *hose) {
  static struct measured measured;
  struct sample *start = &measured.start, *end = &measured.end;
  if (!ask_everybody(hose)) return hose->wrong_bytes > 0 ? WRONG_BYTES : FAILED;
  begin_streaming(hose);
  run_until(hose, monotonic_ns() + (uint64_t)(hose->options->warmup * (double)SECOND));
  begin_measuring(hose);
  if (!take_sample(hose->options->pid, start)) return FAILED;
  run_until(hose, start->time + (uint64_t)(hose->options->seconds * (double)SECOND));
  if (!take_sample(hose->options->pid, end)) return FAILED;
  end_measuring(hose);

  hose->sending = false;
  run_until(hose, end->time + LAST_ANSWERS_WITHIN);
  measured.latencies = hose->latencies;
  print_result(hose, &measured);
  bool good = is_done(hose) && hose->failed == 0;
  if (!good) fprintf(stderr, "load: not everything came back\n");
  return exit_status(good, hose->wrong_bytes, measured.latencies.total);
}

int run_hose(const struct options *options) {
  static struct hose hose;
  if (options->quiet == 0 || options->size > MOST_OF_A_REQUEST) {
    fprintf(stderr, "load: --quiet is missing, or a request has more than %d bytes\n", MOST_OF_A_REQUEST);
    return MISTAKE;
  }
  hose.options = options;
  hose.random = 1;
  hose.interval = (uint64_t)((double)SECOND / (options->rate > 0 ? options->rate : QUIET_RATE));
  hose.measured_since = hose.measured_until = UINT64_MAX;
  fill_pattern(&hose.random, hose.pattern, BLOCK);
  memcpy(hose.pattern + BLOCK, hose.pattern, BLOCK);
  hose.epoll = epoll_create1(EPOLL_CLOEXEC);
  hose.streaming = calloc(options->connections, sizeof *hose.streaming);
  hose.quiet = calloc(options->quiet, sizeof *hose.quiet);
  if (hose.epoll < 0 || !hose.streaming || !hose.quiet) {
    perror("load");
    return FAILED;
  }
  if (!open_peers(&hose, hose.streaming, options->connections, false)) return FAILED;
  if (!open_peers(&hose, hose.quiet, options->quiet, true)) return FAILED;
  return measure(&hose);
}
