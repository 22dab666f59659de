// Bulk: as many bytes as go, either to the server or from it.
//
// To the server: blocks of 64 KiB, or of 16 KiB if they are encrypted. At the end the client says good-bye and waits for the
// server's: it can only get to the good-bye after it has received, and decrypted, all that came before it, and if it closed
// with something unread, what came back would be a reset. From the server: blocks of 16 KiB of which byte i is i modulo
// 251; every byte is compared.

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <time.h>

#include "options.h"
#include "pattern.h"
#include "process.h"
#include "report.h"
#include "stream.h"

enum { BLOCK = 16 * 1024, PLAIN_BLOCK = 64 * 1024, BYTES_PER_TURN = 128 * 1024 };
enum { EVENTS_PER_WAIT = 256, WAIT_MILLISECONDS = 20 };

static const uint64_t SECOND = 1000000000;
static const uint64_t TICK = 500000;
static const uint64_t MOST_BEHIND = 10 * 1000000;
static const uint64_t GOODBYES_WITHIN = 5 * 1000000000ull;

struct flow {
  struct stream stream;
  bool ready;       // the socket may have room, or bytes: it had when it was last tried
  size_t position;  // in the block that comes
};

struct bulk {
  const struct options *options;
  int epoll;
  struct flow *flows;
  unsigned open;
  size_t block;  // bytes of a send
  bool ending;  // good-byes are all that is wanted
  uint64_t bytes;
  uint64_t paced_since;  // when the rate would have been kept with no byte transferred
  uint64_t wrong_bytes;
  uint64_t failed;
  char pattern[PLAIN_BLOCK];  // several blocks, so that one can be compared from anywhere in it
  char received[BLOCK];
};

static void fail(struct bulk *bulk, struct flow *flow, const char *what) {
  if (bulk->failed == 0) fprintf(stderr, "load: %s\n", what);
  bulk->failed++;
  bulk->open--;
  stream_close(&flow->stream);
}

static void end(struct bulk *bulk, struct flow *flow) {
  if (!bulk->ending) {
    fail(bulk, flow, "the server closed a connection");
    return;
  }
  bulk->open--;
  stream_close(&flow->stream);
}

static void take(struct bulk *bulk, struct flow *flow, size_t count) {
  bulk->wrong_bytes += count_differences(bulk->received, bulk->pattern + flow->position, count);
  flow->position = (flow->position + count) % BLOCK;
}

// False if the flow has to wait, or ended.
static bool step(struct bulk *bulk, struct flow *flow) {
  bool sends = bulk->options->uploads && !bulk->ending;
  ssize_t n = sends ? stream_send(&flow->stream, bulk->pattern, bulk->block)
                    : stream_receive(&flow->stream, bulk->received, BLOCK);
  if (n > 0) {
    bulk->bytes += (uint64_t)n;
    if (!sends) take(bulk, flow, (size_t)n);
    return true;
  }
  flow->ready = false;
  if (n == 0) end(bulk, flow);
  else if (errno != EAGAIN && errno != EINTR) fail(bulk, flow, strerror(errno));
  return false;
}

// Registered edge-triggered; in turns, for a flow that finds its socket ready every time must not hold up the others.
static bool run_turns(struct bulk *bulk) {
  bool any_is_ready = false;
  for (unsigned i = 0; i < bulk->options->connections; i++) {
    struct flow *flow = &bulk->flows[i];
    for (size_t bytes = 0; flow->ready && bytes < BYTES_PER_TURN; bytes += bulk->block) step(bulk, flow);
    any_is_ready |= flow->ready;
  }
  return any_is_ready;
}

// Whether more bytes went than the rate allows. What was missed for long is not made good.
static bool is_ahead(struct bulk *bulk, uint64_t now) {
  if (bulk->options->rate == 0 || bulk->ending) return false;
  uint64_t due = bulk->paced_since + (uint64_t)((double)bulk->bytes * 1e3 / bulk->options->rate);
  if (due + MOST_BEHIND < now) bulk->paced_since += now - due;
  return due > now;
}

static void pause_for_a_tick(void) {
  struct timespec tick = {.tv_nsec = (long)TICK};
  nanosleep(&tick, NULL);
}

// Ends at the deadline, or when no connection is left.
static void run_until(struct bulk *bulk, uint64_t deadline) {
  struct epoll_event events[EVENTS_PER_WAIT];
  for (uint64_t now; bulk->open > 0 && (now = monotonic_ns()) < deadline;) {
    if (is_ahead(bulk, now)) {
      pause_for_a_tick();
      continue;
    }
    int wait = run_turns(bulk) ? 0 : WAIT_MILLISECONDS;
    int count = epoll_wait(bulk->epoll, events, EVENTS_PER_WAIT, wait);
    for (int i = 0; i < count; i++) {
      struct flow *flow = events[i].data.ptr;
      flow->ready = flow->stream.fd >= 0;
    }
  }
}

// Several records with one send, so that the load generator is not what limits. Nothing stays behind: OpenSSL flushes
// after a handshake and after a good-bye.
static bool buffer_sends(struct flow *flow) {
  if (!flow->stream.ssl) return true;
  BIO *socket = SSL_get_wbio(flow->stream.ssl), *buffer = BIO_new(BIO_f_buffer());
  if (!buffer || BIO_set_write_buffer_size(buffer, BYTES_PER_TURN) != 1 || !BIO_up_ref(socket)) {
    BIO_free(buffer);
    return false;
  }
  SSL_set0_wbio(flow->stream.ssl, BIO_push(buffer, socket));
  return true;
}

// Any byte is a request.
static bool ask(struct flow *flow) {
  if (stream_send(&flow->stream, "!", 1) != 1) return false;
  return !flow->stream.ssl || BIO_flush(SSL_get_wbio(flow->stream.ssl)) == 1;
}

static bool open_flow(struct bulk *bulk, struct flow *flow) {
  if (!stream_open(&flow->stream, bulk->options) || !buffer_sends(flow)) return false;
  if (!bulk->options->uploads && !ask(flow)) return false;
  flow->ready = true;
  return stream_watch(&flow->stream, bulk->epoll, EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, flow);
}

static bool open_flows(struct bulk *bulk) {
  for (; bulk->open < bulk->options->connections; bulk->open++) {
    if (open_flow(bulk, &bulk->flows[bulk->open])) continue;
    fprintf(stderr, "load: connection %u: %s\n", bulk->open + 1, strerror(errno));
    return false;
  }
  return true;
}

// False if the connection failed. A block that was encrypted and did not fit is not sent after it: what went before the
// good-bye is what counts.
static bool shut_down(struct bulk *bulk, struct flow *flow) {
  if (!flow->stream.ssl) return shutdown(flow->stream.fd, SHUT_WR) == 0;
  int flags = fcntl(flow->stream.fd, F_GETFL);
  fcntl(flow->stream.fd, F_SETFL, flags & ~O_NONBLOCK);
  // A record that is half sent has to be finished first.
  if (SSL_want_write(flow->stream.ssl) && stream_send(&flow->stream, bulk->pattern, bulk->block) < 0) return false;
  SSL_shutdown(flow->stream.ssl);
  fcntl(flow->stream.fd, F_SETFL, flags);
  return true;
}

static void say_goodbye(struct bulk *bulk) {
  bulk->ending = true;
  for (unsigned i = 0; i < bulk->options->connections; i++) {
    struct flow *flow = &bulk->flows[i];
    if (flow->stream.fd < 0) continue;
    flow->ready = true;
    if (!shut_down(bulk, flow)) fail(bulk, flow, strerror(errno));
  }
}

static void print_result(const struct bulk *bulk, const struct measured *measured, uint64_t bytes) {
  double seconds = (double)(measured->end.time - measured->start.time) / 1e9;
  double cpu = (double)(measured->end.cpu - measured->start.cpu) / 1e9;
  printf("{\"connections\": %u, \"bytes\": %" PRIu64 ", \"seconds\": %.6f, \"bytes_per_second\": %.0f",
         bulk->options->connections, bytes, seconds, (double)bytes / seconds);
  if (bulk->options->pid && bytes > 0) {
    printf(", \"server_cpu_us_per_mib\": %.3f, \"server_cpu_share\": %.4f", cpu * 1e6 / ((double)bytes / 1048576),
           cpu / seconds);
  }
  printf(", \"load_cpu_share\": %.4f", load_cpu_share(measured));
  printf(", \"wrong_bytes\": %" PRIu64 ", \"errors\": %" PRIu64 "}\n", bulk->wrong_bytes,
         bulk->wrong_bytes + bulk->failed + (bulk->options->uploads ? bulk->open : 0));
}

static int measure(struct bulk *bulk) {
  static struct measured measured;
  struct sample *start = &measured.start, *end = &measured.end;
  bulk->paced_since = monotonic_ns();
  run_until(bulk, monotonic_ns() + (uint64_t)(bulk->options->warmup * (double)SECOND));
  uint64_t before = bulk->bytes;
  if (!take_sample(bulk->options->pid, start)) return 1;
  run_until(bulk, start->time + (uint64_t)(bulk->options->seconds * (double)SECOND));
  if (!take_sample(bulk->options->pid, end)) return 1;
  uint64_t bytes = bulk->bytes - before;

  if (bulk->options->uploads) {
    say_goodbye(bulk);
    run_until(bulk, monotonic_ns() + GOODBYES_WITHIN);
    if (bulk->open > 0) fprintf(stderr, "load: the server did not say good-bye\n");
  }
  print_result(bulk, &measured, bytes);
  bool unfinished = bulk->options->uploads && bulk->open > 0;
  return exit_status(bulk->failed == 0 && !unfinished, bulk->wrong_bytes, bytes);
}

int run_bulk(const struct options *options) {
  static struct bulk bulk;
  bulk.options = options;
  bulk.block = options->encrypted ? BLOCK : PLAIN_BLOCK;
  for (unsigned i = 0; i < sizeof bulk.pattern; i++) bulk.pattern[i] = (char)(i % BLOCK % 251);
  bulk.epoll = epoll_create1(EPOLL_CLOEXEC);
  bulk.flows = calloc(options->connections, sizeof *bulk.flows);
  if (bulk.epoll < 0 || !bulk.flows) {
    perror("load");
    return 1;
  }
  return open_flows(&bulk) ? measure(&bulk) : 1;
}
