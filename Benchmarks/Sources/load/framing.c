// Lines of text, or messages with their length in front, sent over one connection as fast as they are taken.
//
// Behind the last one the client finishes writing. The server answers with how many it took apart and the sum of their
// bytes, without the endings or lengths: every byte is checked by that.

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "options.h"
#include "pattern.h"
#include "process.h"
#include "report.h"
#include "stream.h"

enum { FRAMES = 4096, LENGTH_SIZE = 4, LARGEST_ANSWER = 63, FIRST_PRINTABLE = ' ', PRINTABLE = '~' - ' ' + 1 };

// Frames of different contents, which are sent again and again.
struct frames {
  char *bytes;
  size_t frame_size;     // with the ending or the length
  uint64_t sums[FRAMES];  // of each, without them
};

static uint64_t sum_of(const char *bytes, size_t count) {
  uint64_t sum = 0;
  for (size_t i = 0; i < count; i++) sum += (unsigned char)bytes[i];
  return sum;
}

// `size` bytes with the newline.
static void make_line(char *line, size_t size) {
  for (size_t i = 0; i + 1 < size; i++) line[i] = (char)(FIRST_PRINTABLE + (unsigned char)line[i] % PRINTABLE);
  line[size - 1] = '\n';
}

// `size` bytes behind the length.
static void add_length(char *message, size_t size) {
  uint32_t length = htonl((uint32_t)size);
  memcpy(message, &length, LENGTH_SIZE);
}

static bool make_frames(struct frames *frames, const struct options *options, bool are_lines) {
  uint64_t random = 1;
  size_t before = are_lines ? 0 : LENGTH_SIZE;
  frames->frame_size = before + options->size;
  frames->bytes = malloc(frames->frame_size * FRAMES + PATTERN_WORD);
  if (!frames->bytes) return false;
  for (unsigned i = 0; i < FRAMES; i++) {
    char *frame = frames->bytes + i * frames->frame_size;
    fill_pattern(&random, frame + before, options->size);
    if (are_lines) {
      make_line(frame, options->size);
    } else {
      add_length(frame, options->size);
    }
    frames->sums[i] = sum_of(frame + before, options->size - (are_lines ? 1 : 0));
  }
  return true;
}

static uint64_t sum_of_all(const struct frames *frames, uint64_t count) {
  uint64_t round = 0, rest = 0;
  for (unsigned i = 0; i < FRAMES; i++) {
    round += frames->sums[i];
    if (i < count % FRAMES) rest += frames->sums[i];
  }
  return count / FRAMES * round + rest;
}

static bool send_all(struct stream *stream, const char *bytes, size_t count) {
  while (count > 0) {
    ssize_t n = stream_send(stream, bytes, count);
    if (n < 0 && errno != EINTR) return false;
    if (n < 0) continue;
    bytes += n;
    count -= (size_t)n;
  }
  return true;
}

static bool send_frames(struct stream *stream, const struct frames *frames, uint64_t count) {
  while (count > 0) {
    uint64_t now = count < FRAMES ? count : FRAMES;
    if (!send_all(stream, frames->bytes, now * frames->frame_size)) return false;
    count -= now;
  }
  return shutdown(stream->fd, SHUT_WR) == 0;
}

// The numbers of the answer. False with errno set, or after a different answer.
static bool receive_answer(struct stream *stream, uint64_t *count, uint64_t *sum) {
  char answer[LARGEST_ANSWER + 1];
  size_t length = 0;
  errno = EBADMSG;
  while (length < LARGEST_ANSWER) {
    ssize_t n = stream_receive(stream, answer + length, LARGEST_ANSWER - length);
    if (n < 0) return false;
    if (n == 0) break;
    length += (size_t)n;
  }
  answer[length] = '\0';
  return sscanf(answer, "%" SCNu64 " %" SCNu64, count, sum) == 2;
}

static void print_result(const struct options *options, const struct measured *measured, uint64_t bytes) {
  double seconds = (double)(measured->end.time - measured->start.time) / 1e9;
  double cpu = (double)(measured->end.cpu - measured->start.cpu);
  printf("{\"size\": %u, \"requests\": %u, \"total_requests\": %u, \"bytes\": %" PRIu64 ", \"seconds\": %.6f"
         ", \"bytes_per_second\": %.0f",
         options->size, options->requests, options->requests, bytes, seconds, (double)bytes / seconds);
  if (options->pid) {
    printf(", \"server_cpu_ns_per_frame\": %.3f, \"server_cpu_share\": %.4f", cpu / options->requests,
           cpu / (seconds * 1e9));
  }
  printf(", \"load_cpu_share\": %.4f, \"errors\": 0}\n", load_cpu_share(measured));
}

static int run(const struct options *options, bool are_lines) {
  static struct frames frames;
  static struct measured measured;
  struct stream stream;
  uint64_t count, sum;
  if (!make_frames(&frames, options, are_lines) || !stream_open(&stream, options)) {
    perror("load");
    return 1;
  }
  if (!take_sample(options->pid, &measured.start)) return 1;
  if (!send_frames(&stream, &frames, options->requests) || !receive_answer(&stream, &count, &sum)) {
    perror("load");
    return 1;
  }
  if (!take_sample(options->pid, &measured.end)) return 1;
  uint64_t expected = sum_of_all(&frames, options->requests);
  if (count != options->requests || sum != expected) {
    fprintf(stderr, "load: the server took %" PRIu64 " apart with the sum %" PRIu64 ", not %u with %" PRIu64 "\n", count,
            sum, options->requests, expected);
    return 1;
  }
  print_result(options, &measured, options->requests * frames.frame_size);
  return 0;
}

int run_lines(const struct options *options) { return run(options, true); }
int run_messages(const struct options *options) { return run(options, false); }
