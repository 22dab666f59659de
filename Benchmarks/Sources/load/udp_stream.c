// Datagrams one way, in bursts: connected sockets, each with one burst under way.
//
//   up     The load generator sends a burst of datagrams. The first byte of the last one is 1, that of the others 0. The server answers
//          the last one with one byte. Then the next burst follows.
//   down   The load generator sends a request: the byte 2, the number of datagrams, their size in two bytes (big-endian). The server
//          sends that many datagrams. The first byte of each is its number in the burst, the others are 0. Then the next request follows.
//
// A burst leaves as one message that the kernel divides (UDP_SEGMENT), and is received as one (UDP_GRO), so that the load generator is not
// the limit. A burst of which something is missing after LOST_AFTER is counted as lost, and another takes its place.

#define _GNU_SOURCE

#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "histogram.h"
#include "options.h"
#include "process.h"
#include "report.h"

enum { LARGEST_BURST = 65000, ROOM = 65536, EVENTS_PER_WAIT = 64, WAIT_MILLISECONDS = 20 };
enum { ANSWER_THIS = 1, SEND_BURST = 2 };

static const uint64_t SECOND = 1000000000;
static const uint64_t LOST_AFTER = 100000000;

struct source {
  int fd;
  uint64_t started;   // of the burst
  unsigned received;  // datagrams of the burst that came down
};

struct stream_load {
  const struct options *options;
  int epoll;
  struct source *sources;
  char *burst;      // what goes up
  char *expected;   // a datagram that comes down, but for its first byte
  uint64_t completed;
  uint64_t lost;    // bursts
  uint64_t wrong;   // datagrams
  uint64_t failures;
  struct histogram latencies;
};

static void fail(struct stream_load *load, const char *what) {
  if (load->failures == 0) fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
  load->failures++;
}

static bool send_message(struct source *source, char *bytes, size_t count, unsigned segment) {
  struct iovec vector = {.iov_base = bytes, .iov_len = count};
  union {
    char bytes[CMSG_SPACE(sizeof(uint16_t))];
    struct cmsghdr header;
  } control = {.bytes = {0}};
  struct msghdr message = {.msg_iov = &vector, .msg_iovlen = 1};
  if (count > segment) {
    uint16_t size = (uint16_t)segment;
    message.msg_control = control.bytes;
    message.msg_controllen = sizeof control.bytes;
    control.header.cmsg_level = SOL_UDP;
    control.header.cmsg_type = UDP_SEGMENT;
    control.header.cmsg_len = CMSG_LEN(sizeof size);
    memcpy(CMSG_DATA(&control.header), &size, sizeof size);
  }
  return sendmsg(source->fd, &message, 0) == (ssize_t)count;
}

static void begin_burst(struct stream_load *load, struct source *source, uint64_t now) {
  const struct options *options = load->options;
  bool sent;
  source->started = now;
  source->received = 0;
  if (options->uploads) {
    sent = send_message(source, load->burst, (size_t)options->size * options->in_flight, options->size);
  } else {
    char request[] = {SEND_BURST, (char)options->in_flight, (char)(options->size >> 8), (char)options->size};
    sent = send_message(source, request, sizeof request, sizeof request);
  }
  // What there is no room for is lost, as any other datagram is.
  if (!sent && errno != EAGAIN && errno != ENOBUFS) fail(load, "sendmsg");
}

static void end_burst(struct stream_load *load, struct source *source, uint64_t now) {
  for (unsigned i = 0; i < load->options->in_flight; i++) histogram_add(&load->latencies, now - source->started);
  load->completed += load->options->in_flight;
  begin_burst(load, source, now);
}

// Several datagrams, if `segment` is not 0.
static void take_down(struct stream_load *load, struct source *source, const char *bytes, size_t count, size_t segment) {
  const struct options *options = load->options;
  if (segment == 0) segment = count;
  for (size_t start = 0; start < count; start += segment) {
    size_t length = count - start < segment ? count - start : segment;
    // Of a burst that was counted as lost, or wrong.
    bool is_next = (unsigned char)bytes[start] == source->received;
    if (!is_next && load->lost == 0) load->wrong++;
    if (length != options->size || memcmp(bytes + start + 1, load->expected + 1, length - 1)) load->wrong++;
    if (is_next) source->received++;
  }
}

static size_t segment_size(struct msghdr *message) {
  for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_UDP || header->cmsg_type != UDP_GRO) continue;
    int size;
    memcpy(&size, CMSG_DATA(header), sizeof size);
    return (size_t)size;
  }
  return 0;
}

// Level-triggered: what is left makes another event.
static void advance(struct stream_load *load, struct source *source) {
  static char bytes[ROOM];
  char control[CMSG_SPACE(sizeof(int))];
  struct iovec vector = {.iov_base = bytes, .iov_len = sizeof bytes};
  struct msghdr message = {
      .msg_iov = &vector, .msg_iovlen = 1, .msg_control = control, .msg_controllen = sizeof control};
  ssize_t count = recvmsg(source->fd, &message, 0);
  if (count < 0) {
    if (errno != EAGAIN && errno != EINTR) fail(load, "recvmsg");
    return;
  }
  if (!load->options->uploads) {
    take_down(load, source, bytes, (size_t)count, segment_size(&message));
    if (source->received < load->options->in_flight) return;
  } else if (count != 1) {
    load->wrong++;
  }
  end_burst(load, source, monotonic_ns());
}

static void run_until(struct stream_load *load, uint64_t deadline) {
  struct epoll_event events[EVENTS_PER_WAIT];
  for (;;) {
    uint64_t now = monotonic_ns();
    if (now >= deadline || load->failures > 0 || !wants_another(load->options, load->completed)) return;
    for (unsigned i = 0; i < load->options->connections; i++) {
      if (now - load->sources[i].started < LOST_AFTER) continue;
      load->lost++;
      begin_burst(load, &load->sources[i], now);
    }
    int count = epoll_wait(load->epoll, events, EVENTS_PER_WAIT, WAIT_MILLISECONDS);
    for (int i = 0; i < count; i++) advance(load, events[i].data.ptr);
  }
}

static bool prepare(struct stream_load *load) {
  const struct options *options = load->options;
  load->epoll = epoll_create1(EPOLL_CLOEXEC);
  load->sources = calloc(options->connections, sizeof *load->sources);
  load->burst = calloc(options->in_flight, options->size);
  load->expected = calloc(1, options->size);
  if (load->epoll < 0 || !load->sources || !load->burst || !load->expected) return false;
  load->burst[(size_t)(options->in_flight - 1) * options->size] = ANSWER_THIS;
  for (unsigned i = 0; i < options->connections; i++) {
    struct source *source = &load->sources[i];
    int on = 1;
    source->fd = target_connect_datagrams(&options->target);
    if (source->fd < 0 || setsockopt(source->fd, SOL_UDP, UDP_GRO, &on, sizeof on) < 0) return false;
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = source};
    if (epoll_ctl(load->epoll, EPOLL_CTL_ADD, source->fd, &event) < 0) return false;
    begin_burst(load, source, monotonic_ns());
  }
  return true;
}

int run_udp_stream(const struct options *options) {
  static struct stream_load load;
  static struct measured measured;
  struct sample *start = &measured.start, *end = &measured.end;
  if (options->size < 2 || options->size * options->in_flight > LARGEST_BURST) {
    fprintf(stderr, "load: a datagram has 2 bytes or more, and a burst %d at most\n", LARGEST_BURST);
    return MISTAKE;
  }
  load.options = options;
  if (!prepare(&load)) {
    perror("load");
    return FAILED;
  }
  run_until(&load, monotonic_ns() + (uint64_t)(options->warmup * (double)SECOND));
  histogram_clear(&load.latencies);
  uint64_t lost_before = load.lost;
  if (!take_sample(options->pid, start)) return FAILED;
  run_until(&load, start->time + (uint64_t)(options->seconds * (double)SECOND));
  if (!take_sample(options->pid, end)) return FAILED;
  measured.latencies = load.latencies;

  print_measured(options, &measured, load.completed);
  printf(", \"in_flight\": %u, \"lost\": %" PRIu64 ", \"total_lost\": %" PRIu64 ", \"wrong_bytes\": %" PRIu64
         ", \"errors\": %" PRIu64 "}\n",
         options->in_flight, load.lost - lost_before, load.lost, load.wrong, load.wrong + load.failures);
  bool good = load.failures == 0 && load.completed >= options->requests;
  return exit_status(good, load.wrong, measured.latencies.total);
}
