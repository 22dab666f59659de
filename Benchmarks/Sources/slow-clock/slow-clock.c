// Slows CLOCK_BOOTTIME down for a program that is started with this library in LD_PRELOAD.
//
// Valgrind makes a program about 50 times as slow. A server that limits its work by time, for example to 100 us before it
// hands jobs over, would then do a fiftieth of that work, and count what it does at the end of each share more often. With
// this library, that clock is as slow as the program, so shares of time contain as much work as without valgrind.
//
// Timeouts of system calls are not slowed down. The monotonic clock is not either: libdispatch arms timers with it.

#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

static const int64_t nanoseconds_per_second = 1000000000;
static const int64_t slowdown = 50;

typedef int (*clock_function)(clockid_t clock, struct timespec *time);

static clock_function next;
static int64_t start;

static int64_t nanoseconds(struct timespec time) { return time.tv_sec * nanoseconds_per_second + time.tv_nsec; }

__attribute__((constructor)) static void find_next(void) {
  next = (clock_function)dlsym(RTLD_NEXT, "clock_gettime");
  struct timespec now;
  if (!next || next(CLOCK_BOOTTIME, &now) != 0) abort();
  start = nanoseconds(now);
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  // Another library's constructor may run before this one's.
  if (!next) find_next();
  int result = next(clock, time);
  if (result != 0 || clock != CLOCK_BOOTTIME) return result;
  int64_t now = start + (nanoseconds(*time) - start) / slowdown;
  time->tv_sec = now / nanoseconds_per_second;
  time->tv_nsec = now % nanoseconds_per_second;
  return 0;
}
