// Datagram load: connected sockets, each with several requests in flight. Every datagram that comes back is checked.
//
// A request begins with its number, which no other request of its socket has; the rest is a pattern that follows from
// the number, so that also one that comes late can be checked. One that does not come back within LOST_AFTER is counted as
// lost, and another takes its place: datagrams may be lost.

#define _GNU_SOURCE

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "histogram.h"
#include "options.h"
#include "pattern.h"
#include "process.h"
#include "report.h"

enum { MOST_IN_FLIGHT = 64, LARGEST = 16 * 1024, EVENTS_PER_WAIT = 256, WAIT_MILLISECONDS = 20 };

static const uint64_t SECOND = 1000000000;
static const uint64_t LOST_AFTER = 100000000;
static const uint64_t LAST_ANSWERS_WITHIN = 200000000;

// A place for one request after the other.
struct slot {
  uint64_t number;   // of the request; the slot's place is its remainder by the requests in flight
  uint64_t started;  // when it was sent
  bool waiting;      // it is in flight
  char *request;
};

struct endpoint {
  int fd;
  unsigned index;
  struct slot *slots;
  // Those of the slots whose requests are to be sent.
  struct mmsghdr outgoing[MOST_IN_FLIGHT];
  struct iovec vectors[MOST_IN_FLIGHT];
  unsigned to_send;
};

struct udp {
  const struct options *options;
  int epoll;
  struct endpoint *endpoints;
  unsigned in_flight;
  bool sending;        // false when the time is over
  uint64_t completed;  // all of them, also outside the measured time
  uint64_t lost;
  uint64_t late;  // came after they were counted as lost, or twice
  uint64_t wrong_bytes;
  uint64_t failures;
  uint64_t next_check;  // when to look for lost ones
  struct histogram latencies;
  struct mmsghdr incoming[MOST_IN_FLIGHT];
  struct iovec vectors[MOST_IN_FLIGHT];
  char *received;
};

static void fail(struct udp *udp, const char *what) {
  if (udp->failures == 0) fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
  udp->failures++;
}

// The bytes of a request follow from its socket and its number.
static void fill_request(const struct udp *udp, const struct endpoint *endpoint, uint64_t number, char *request) {
  uint64_t state = ((uint64_t)endpoint->index << 48) ^ (number * 0x9E3779B97F4A7C15u << 8);
  fill_pattern(&state, request, udp->options->size);
  memcpy(request, &number, sizeof number);
}

// One that was lost does not count.
static bool asks_on(const struct udp *udp) {
  return udp->sending && wants_another(udp->options, udp->completed + udp->in_flight);
}

static void begin_request(struct udp *udp, struct endpoint *endpoint, struct slot *slot, uint64_t now) {
  slot->number += udp->options->in_flight;
  slot->started = now;
  slot->waiting = true;
  fill_request(udp, endpoint, slot->number, slot->request);
  endpoint->vectors[endpoint->to_send++].iov_base = slot->request;
  udp->in_flight++;
}

// What there is no room for is lost, as any other datagram is.
static void send_requests(struct udp *udp, struct endpoint *endpoint) {
  unsigned sent = 0;
  while (sent < endpoint->to_send) {
    int n = sendmmsg(endpoint->fd, endpoint->outgoing + sent, endpoint->to_send - sent, 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) fail(udp, "sendmmsg");
    if (n < 0) break;
    sent += (unsigned)n;
  }
  endpoint->to_send = 0;
}

// One that was answered already, or counted as lost.
static void take_late(struct udp *udp, struct endpoint *endpoint, uint64_t number, const char *bytes) {
  static char expected[LARGEST + PATTERN_WORD];
  fill_request(udp, endpoint, number, expected);
  udp->wrong_bytes += count_differences(bytes, expected, udp->options->size);
  udp->late++;
}

static void take_answer(struct udp *udp, struct endpoint *endpoint, const char *bytes, unsigned length, uint64_t now) {
  const unsigned size = udp->options->size;
  uint64_t number;
  memcpy(&number, bytes, sizeof number);
  struct slot *slot = &endpoint->slots[number % udp->options->in_flight];
  if (length != size || number > slot->number) {
    udp->wrong_bytes += length > size ? length : size;
    return;
  }
  if (number < slot->number || !slot->waiting) {
    take_late(udp, endpoint, number, bytes);
    return;
  }
  udp->wrong_bytes += count_differences(bytes, slot->request, size);
  histogram_add(&udp->latencies, now - slot->started);
  udp->completed++;
  udp->in_flight--;
  slot->waiting = false;
  if (asks_on(udp)) begin_request(udp, endpoint, slot, now);
}

// Level-triggered: what is left makes another event.
static void advance(struct udp *udp, struct endpoint *endpoint) {
  int count = recvmmsg(endpoint->fd, udp->incoming, udp->options->in_flight, 0, NULL);
  if (count < 0) {
    if (errno != EAGAIN && errno != EINTR) fail(udp, "recvmmsg");
    return;
  }
  uint64_t now = monotonic_ns();
  for (int i = 0; i < count; i++) {
    take_answer(udp, endpoint, udp->vectors[i].iov_base, udp->incoming[i].msg_len, now);
  }
  send_requests(udp, endpoint);
}

static void replace_lost(struct udp *udp, uint64_t now) {
  if (now < udp->next_check) return;
  udp->next_check = now + LOST_AFTER / 4;
  for (unsigned i = 0; i < udp->options->connections; i++) {
    struct endpoint *endpoint = &udp->endpoints[i];
    for (unsigned j = 0; j < udp->options->in_flight; j++) {
      struct slot *slot = &endpoint->slots[j];
      if (!slot->waiting || now - slot->started < LOST_AFTER) continue;
      udp->lost++;
      udp->in_flight--;
      slot->waiting = false;
      if (asks_on(udp)) begin_request(udp, endpoint, slot, now);
    }
    send_requests(udp, endpoint);
  }
}

// Ends at the deadline, when nothing is in flight any more, or when nobody is there.
static void run_until(struct udp *udp, uint64_t deadline) {
  struct epoll_event events[EVENTS_PER_WAIT];
  for (;;) {
    uint64_t now = monotonic_ns();
    if (now >= deadline || udp->in_flight == 0 || udp->failures > 0) return;
    replace_lost(udp, now);
    int count = epoll_wait(udp->epoll, events, EVENTS_PER_WAIT, WAIT_MILLISECONDS);
    for (int i = 0; i < count; i++) advance(udp, events[i].data.ptr);
  }
}

static bool open_endpoint(struct udp *udp, struct endpoint *endpoint, unsigned index) {
  const struct options *options = udp->options;
  endpoint->index = index;
  endpoint->fd = target_connect_datagrams(&options->target);
  endpoint->slots = calloc(options->in_flight, sizeof *endpoint->slots);
  if (endpoint->fd < 0 || !endpoint->slots) return false;
  for (unsigned i = 0; i < options->in_flight; i++) {
    endpoint->slots[i].number = i;
    endpoint->slots[i].request = malloc(options->size + PATTERN_WORD);
    if (!endpoint->slots[i].request) return false;
    endpoint->vectors[i].iov_len = options->size;
    endpoint->outgoing[i].msg_hdr.msg_iov = &endpoint->vectors[i];
    endpoint->outgoing[i].msg_hdr.msg_iovlen = 1;
  }
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = endpoint};
  return epoll_ctl(udp->epoll, EPOLL_CTL_ADD, endpoint->fd, &event) == 0;
}

static bool prepare(struct udp *udp) {
  const struct options *options = udp->options;
  // One byte more than a request has shows one that is too long.
  const size_t room = options->size + PATTERN_WORD;
  udp->epoll = epoll_create1(EPOLL_CLOEXEC);
  udp->endpoints = calloc(options->connections, sizeof *udp->endpoints);
  udp->received = calloc(options->in_flight, room);
  if (udp->epoll < 0 || !udp->endpoints || !udp->received) return false;
  for (unsigned i = 0; i < options->in_flight; i++) {
    udp->vectors[i] = (struct iovec){.iov_base = udp->received + i * room, .iov_len = room};
    udp->incoming[i].msg_hdr.msg_iov = &udp->vectors[i];
    udp->incoming[i].msg_hdr.msg_iovlen = 1;
  }
  for (unsigned i = 0; i < options->connections; i++) {
    if (!open_endpoint(udp, &udp->endpoints[i], i)) return false;
  }
  return true;
}

static void begin_all(struct udp *udp) {
  udp->sending = true;
  for (unsigned i = 0; i < udp->options->connections; i++) {
    struct endpoint *endpoint = &udp->endpoints[i];
    uint64_t now = monotonic_ns();
    for (unsigned j = 0; j < udp->options->in_flight && asks_on(udp); j++) {
      begin_request(udp, endpoint, &endpoint->slots[j], now);
    }
    send_requests(udp, endpoint);
  }
}

static int measure(struct udp *udp) {
  static struct measured measured;
  struct sample *start = &measured.start, *end = &measured.end;
  begin_all(udp);
  run_until(udp, monotonic_ns() + (uint64_t)(udp->options->warmup * (double)SECOND));
  histogram_clear(&udp->latencies);
  uint64_t lost_before = udp->lost;
  if (!take_sample(udp->options->pid, start)) return 1;
  run_until(udp, start->time + (uint64_t)(udp->options->seconds * (double)SECOND));
  if (!take_sample(udp->options->pid, end)) return 1;
  measured.latencies = udp->latencies;
  uint64_t lost = udp->lost - lost_before;

  udp->sending = false;
  run_until(udp, end->time + LAST_ANSWERS_WITHIN);
  // More late ones than lost ones: some came twice.
  uint64_t twice = udp->late > udp->lost ? udp->late - udp->lost : 0;

  print_measured(udp->options, &measured, udp->completed);
  printf(", \"in_flight\": %u, \"lost\": %" PRIu64 ", \"total_lost\": %" PRIu64 ", \"late\": %" PRIu64
         ", \"wrong_bytes\": %" PRIu64 ", \"errors\": %" PRIu64 "}\n",
         udp->options->in_flight, lost, udp->lost, udp->late, udp->wrong_bytes,
         udp->wrong_bytes + udp->failures + twice);
  bool good = udp->failures == 0 && twice == 0 && udp->completed >= udp->options->requests;
  return exit_status(good, udp->wrong_bytes, measured.latencies.total);
}

int run_udp(const struct options *options) {
  static struct udp udp;
  if (options->size < sizeof(uint64_t) || options->size > LARGEST) {
    fprintf(stderr, "load: a datagram has %zu to %d bytes\n", sizeof(uint64_t), LARGEST);
    return 2;
  }
  udp.options = options;
  if (!prepare(&udp)) {
    perror("load");
    return 1;
  }
  return measure(&udp);
}
