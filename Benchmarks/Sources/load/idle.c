// What an idle connection costs the server in memory of its own. (The kernel's part is not in it.)

#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "options.h"
#include "process.h"
#include "stream.h"

// One echoed byte: after it the handler runs and waits in its next read.
static bool echo_one_byte(struct stream *stream, unsigned char byte) {
  unsigned char answer;
  if (stream_send(stream, &byte, 1) != 1) return false;
  ssize_t n = stream_receive(stream, &answer, 1);
  if (n == 0) errno = ECONNRESET;
  if (n == 1 && answer != byte) errno = EBADMSG;
  return n == 1 && answer == byte;
}

// The connections are not kept: all stay open until the process ends.
static bool open_connections(const struct options *options, unsigned count) {
  for (unsigned i = 0; i < count; i++) {
    struct stream stream;
    if (!stream_open(&stream, options) || !echo_one_byte(&stream, (unsigned char)(i * 31 + 7))) {
      fprintf(stderr, "load: connection %u of %u: %s\n", i + 1, count, strerror(errno));
      return false;
    }
  }
  return true;
}

static void sleep_for(double seconds) {
  struct timespec left = {.tv_sec = (time_t)seconds};
  left.tv_nsec = (long)((seconds - (double)left.tv_sec) * 1e9);
  while (nanosleep(&left, &left) < 0 && errno == EINTR) {}
}

static bool read_memory(const struct options *options, uint64_t *bytes) {
  if (process_private_bytes(options->pid, bytes)) return true;
  fprintf(stderr, "load: cannot read the memory of process %d\n", (int)options->pid);
  return false;
}

int run_idle(const struct options *options) {
  uint64_t before, after;
  // The first connection also pays for what the server makes once; it is counted as part of "before".
  if (!open_connections(options, 1)) return 1;
  sleep_for(options->hold);
  if (!read_memory(options, &before)) return 1;

  if (!open_connections(options, options->connections)) return 1;
  sleep_for(options->hold);
  if (!read_memory(options, &after)) return 1;

  double growth = (double)after - (double)before;
  printf("{\"connections\": %u, \"private_bytes_before\": %" PRIu64 ", \"private_bytes_after\": %" PRIu64
         ", \"bytes_per_connection\": %.1f}\n",
         options->connections, before, after, growth / options->connections);
  return 0;
}
