// A job server with the protocol of beanstalkd: each connection puts a job, reserves one (its own or another's) and deletes it, over and
// over. A request is one of these three commands. As many jobs as reservations are on their way, so no reservation waits for long.

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
#include "process.h"
#include "report.h"
#include "stream.h"

enum { MOST_OF_A_JOB = 1024, LINE = 128, EVENTS_PER_WAIT = 256 };
enum step { PUT, RESERVE, DELETE, STEPS };

static const uint64_t SECOND = 1000000000;
static const uint64_t LAST_ANSWERS_WITHIN = 5 * 1000000000ull;

struct worker {
  struct stream stream;
  enum step step;
  bool waiting;
  uint64_t started;
  uint64_t job;  // the one that it has reserved
  size_t received;
  char answer[LINE + MOST_OF_A_JOB];
};

struct jobs {
  const struct options *options;
  int epoll;
  struct worker *workers;
  bool working;  // false when the time is over: those that have a job finish it
  unsigned waiting;
  uint64_t measured_since;
  uint64_t put;
  uint64_t deleted;
  uint64_t wrong_bytes;
  bool failed;
  struct histogram latencies;
};

static void fail(struct jobs *jobs, const char *what) {
  if (!jobs->failed) fprintf(stderr, "load: %s\n", what);
  jobs->failed = true;
}

// All bytes of a job follow from its first four, so that one that is torn or mixed with another shows.
static char byte_of_job(const char *number, unsigned index) {
  return (char)(number[index % 4] * 31 + (char)(index * 7));
}

static size_t write_put(struct jobs *jobs, char *command) {
  unsigned size = jobs->options->size;
  uint32_t number = (uint32_t)jobs->put++;
  size_t length = (size_t)sprintf(command, "put 1024 0 60 %u\r\n", size);
  char *job = command + length;
  memcpy(job, &number, 4);
  for (unsigned i = 4; i < size; i++) job[i] = byte_of_job(job, i);
  memcpy(job + size, "\r\n", 2);
  return length + size + 2;
}

static void begin(struct jobs *jobs, struct worker *worker) {
  char command[LINE + MOST_OF_A_JOB];
  size_t length = 0;
  switch (worker->step) {
    case PUT: length = write_put(jobs, command); break;
    case RESERVE: length = (size_t)sprintf(command, "reserve\r\n"); break;
    default: length = (size_t)sprintf(command, "delete %" PRIu64 "\r\n", worker->job); break;
  }
  worker->started = monotonic_ns();
  worker->received = 0;
  worker->waiting = true;
  jobs->waiting++;
  if (stream_send(&worker->stream, command, length) != (ssize_t)length) fail(jobs, "a command could not be sent");
}

// The length of a whole answer; 0 if it is not whole yet. Says so if it is not what was expected.
static size_t whole_answer(struct jobs *jobs, struct worker *worker) {
  char *end = memmem(worker->answer, worker->received, "\r\n", 2);
  if (!end) return 0;
  size_t line = (size_t)(end - worker->answer) + 2;
  uint64_t job = 0;
  unsigned size = 0;
  *end = '\0';
  bool is_right;
  switch (worker->step) {
    case PUT: is_right = sscanf(worker->answer, "INSERTED %" SCNu64, &job) == 1; break;
    case RESERVE:
      is_right = sscanf(worker->answer, "RESERVED %" SCNu64 " %u", &job, &size) == 2 && size == jobs->options->size;
      if (is_right) worker->job = job;
      break;
    default: is_right = !strcmp(worker->answer, "DELETED"); break;
  }
  if (!is_right) fprintf(stderr, "load: the answer to step %d is \"%s\"\n", (int)worker->step, worker->answer);
  *end = '\r';
  if (!is_right) fail(jobs, "an answer is not what was expected");
  size_t length = line + (worker->step == RESERVE ? size + 2 : 0);
  return is_right && worker->received >= length ? length : 0;
}

static void check_job(struct jobs *jobs, const struct worker *worker, size_t length) {
  const char *job = worker->answer + length - jobs->options->size - 2;
  for (unsigned i = 4; i < jobs->options->size; i++) jobs->wrong_bytes += job[i] != byte_of_job(job, i);
  if (jobs->wrong_bytes > 0) fail(jobs, "a job has wrong bytes");
}

static void take(struct jobs *jobs, struct worker *worker) {
  size_t room = sizeof worker->answer - worker->received;
  ssize_t n = stream_receive(&worker->stream, worker->answer + worker->received, room);
  if (n < 0 && (errno == EAGAIN || errno == EINTR)) return;
  if (n <= 0) return fail(jobs, n == 0 ? "the server closed a connection" : strerror(errno));
  if (!worker->waiting) return fail(jobs, "an answer came without a command");
  worker->received += (size_t)n;
  size_t length = whole_answer(jobs, worker);
  if (length == 0) return;
  if (length < worker->received) return fail(jobs, "bytes came after an answer");
  if (worker->step == RESERVE) check_job(jobs, worker, length);
  if (worker->started >= jobs->measured_since) histogram_add(&jobs->latencies, monotonic_ns() - worker->started);
  worker->waiting = false;
  jobs->waiting--;
  jobs->deleted += worker->step == DELETE;
  worker->step = (worker->step + 1) % STEPS;
  if (worker->step != PUT || jobs->working) begin(jobs, worker);
}

static void run_until(struct jobs *jobs, uint64_t end) {
  struct epoll_event events[EVENTS_PER_WAIT];
  while (jobs->waiting > 0 && !jobs->failed && monotonic_ns() < end) {
    int count = epoll_wait(jobs->epoll, events, EVENTS_PER_WAIT, 100);
    for (int i = 0; i < count && !jobs->failed; i++) take(jobs, events[i].data.ptr);
  }
}

static bool open_workers(struct jobs *jobs) {
  for (unsigned i = 0; i < jobs->options->connections; i++) {
    struct worker *worker = &jobs->workers[i];
    if (stream_open(&worker->stream, jobs->options) &&
        stream_watch(&worker->stream, jobs->epoll, EPOLLIN | EPOLLRDHUP, worker))
      continue;
    fprintf(stderr, "load: connection %u: %s\n", i + 1, strerror(errno));
    return false;
  }
  return true;
}

static int measure(struct jobs *jobs) {
  static struct measured measured;
  const struct options *options = jobs->options;
  jobs->working = true;
  for (unsigned i = 0; i < options->connections; i++) begin(jobs, &jobs->workers[i]);
  run_until(jobs, monotonic_ns() + (uint64_t)(options->warmup * (double)SECOND));
  jobs->measured_since = monotonic_ns();
  if (!take_sample(options->pid, &measured.start)) return FAILED;
  run_until(jobs, measured.start.time + (uint64_t)(options->seconds * (double)SECOND));
  if (!take_sample(options->pid, &measured.end)) return FAILED;
  measured.latencies = jobs->latencies;
  jobs->working = false;
  run_until(jobs, monotonic_ns() + LAST_ANSWERS_WITHIN);
  bool good = !jobs->failed && jobs->waiting == 0 && jobs->deleted == jobs->put;
  print_measured(options, &measured, STEPS * jobs->deleted);
  printf(", \"wrong_bytes\": %" PRIu64 ", \"errors\": %u}\n", jobs->wrong_bytes, good ? 0 : 1);
  if (!good) fprintf(stderr, "load: %" PRIu64 " jobs were put, %" PRIu64 " deleted\n", jobs->put, jobs->deleted);
  return exit_status(good, jobs->wrong_bytes, measured.latencies.total);
}

int run_jobs(const struct options *options) {
  static struct jobs jobs;
  if (options->size < 4 || options->size > MOST_OF_A_JOB) {
    fprintf(stderr, "load: a job has from 4 to %d bytes\n", MOST_OF_A_JOB);
    return MISTAKE;
  }
  jobs.options = options;
  jobs.measured_since = UINT64_MAX;
  jobs.epoll = epoll_create1(EPOLL_CLOEXEC);
  jobs.workers = calloc(options->connections, sizeof *jobs.workers);
  if (jobs.epoll < 0 || !jobs.workers) {
    perror("load");
    return FAILED;
  }
  return open_workers(&jobs) ? measure(&jobs) : FAILED;
}
