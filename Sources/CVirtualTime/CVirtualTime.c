// For RTLD_NEXT
#define _GNU_SOURCE

#include "CVirtualTime.h"
#include "Uninstrumented.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

static _Thread_local const cvirtualtime_clock *thread_clock;
static _Thread_local void *thread_owner;

cvirtualtime_clock *cvirtualtime_create(int64_t nanoseconds, int64_t time_of_day) {
  cvirtualtime_clock *clock = malloc(sizeof *clock);
  if (!clock) abort();
  clock->nanoseconds = nanoseconds;
  clock->time_of_day = time_of_day;
  clock->asks = false;
  clock->thread = pthread_self();
  return clock;
}

void cvirtualtime_free(cvirtualtime_clock *clock) { free(clock); }

int64_t cvirtualtime_read(const cvirtualtime_clock *clock) {
  return __c11_atomic_load(&clock->nanoseconds, __ATOMIC_RELAXED);
}

void cvirtualtime_set(cvirtualtime_clock *clock, int64_t nanoseconds) {
  __c11_atomic_store(&clock->nanoseconds, nanoseconds, __ATOMIC_RELAXED);
}

void cvirtualtime_ask(cvirtualtime_clock *clock) { clock->asks = true; }

void cvirtualtime_enter(cvirtualtime_clock *clock, void *owner) {
  if (clock) clock->thread = pthread_self();
  thread_clock = clock;
  thread_owner = owner;
}

void *cvirtualtime_owner(void) { return thread_owner; }

// A function of Swift's runtime. `UnownedJob.description` calls it
__attribute__((swiftcall)) uint64_t swift_task_getJobTaskId(void *job);

uint64_t cvirtualtime_task_number(void *job) { return swift_task_getJobTaskId(job); }

// A function of Swift's runtime. `withUnsafeCurrentTask` calls it. A task begins with its job
__attribute__((swiftcall)) void *swift_task_getCurrent(void);

uint64_t cvirtualtime_current_task_number(void) {
  void *task = swift_task_getCurrent();
  return task ? swift_task_getJobTaskId(task) : 0;
}

typedef int clock_gettime_function(clockid_t, struct timespec *);

static _Atomic(clock_gettime_function *) next_function;

/// The C library's function. It does not enter the kernel
static int next_clock_gettime(clockid_t clock, struct timespec *time) {
  clock_gettime_function *next = __c11_atomic_load(&next_function, __ATOMIC_RELAXED);
  if (!next) {
    next = (clock_gettime_function *)dlsym(RTLD_NEXT, "clock_gettime");
    // In a program without shared libraries there is no other one
    if (!next) return (int)syscall(SYS_clock_gettime, clock, time);
    __c11_atomic_store(&next_function, next, __ATOMIC_RELAXED);
  }
  return next(clock, time);
}

int64_t cvirtualtime_real_time_of_day(void) {
  struct timespec time;
  next_clock_gettime(CLOCK_REALTIME, &time);
  return time.tv_sec * 1000000000 + time.tv_nsec;
}

// Defined by ActorSocketsTesting in VirtualThread+Clocks.swift
int64_t actorsockets_host_clock(bool is_time_of_day);

/// What a clock of the calling thread shows, which is in virtual time
static int show(const cvirtualtime_clock *here, bool is_time_of_day, struct timespec *time) {
  int64_t now;
  if (here->asks) {
    now = actorsockets_host_clock(is_time_of_day);
  } else {
    now = cvirtualtime_read(here);
    // The sum is shown to the end of the year 2262, as by the host's clocks
    if (is_time_of_day && __builtin_add_overflow(now, here->time_of_day, &now)) now = INT64_MAX;
    if (now < 0) now = 0;
  }
  time->tv_sec = now / 1000000000;
  time->tv_nsec = now % 1000000000;
  return 0;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  const cvirtualtime_clock *here = thread_clock;
  if (!here) return next_clock_gettime(clock, time);
  switch (clock) {
    case CLOCK_MONOTONIC:
    case CLOCK_MONOTONIC_RAW:
    case CLOCK_MONOTONIC_COARSE:
    case CLOCK_BOOTTIME:
    case CLOCK_BOOTTIME_ALARM:
      return show(here, false, time);
    case CLOCK_REALTIME:
    case CLOCK_REALTIME_COARSE:
    case CLOCK_REALTIME_ALARM:
    case CLOCK_TAI:
      return show(here, true, time);
    default:
      return next_clock_gettime(clock, time);
  }
}

// The functions of the C library that also show the time of day, made of the one above. They show the same clocks as the library's own
// functions do, and those do not enter the kernel either

time_t time(time_t *result) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME_COARSE, &time);
  if (result) *result = time.tv_sec;
  return time.tv_sec;
}

int gettimeofday(struct timeval *restrict result, void *restrict zone) {
  struct timespec time;
  clock_gettime(CLOCK_REALTIME, &time);
  result->tv_sec = time.tv_sec;
  result->tv_usec = time.tv_nsec / 1000;
  if (zone) *(struct timezone *)zone = (struct timezone){0};
  return 0;
}

typedef int timespec_get_function(struct timespec *, int);

int timespec_get(struct timespec *time, int base) {
  if (base == TIME_UTC) return clock_gettime(CLOCK_REALTIME, time) ? 0 : base;
  timespec_get_function *next = (timespec_get_function *)dlsym(RTLD_NEXT, "timespec_get");
  return next ? next(time, base) : 0;
}

// Defined by ActorSocketsTesting in VirtualExecutors.swift
void actorsockets_install_virtual_executors(void);

/// Runs before the program does. The runtime's executors are exchanged here because no other thread uses them yet
__attribute__((constructor)) static void install(void) { actorsockets_install_virtual_executors(); }

#pragma clang attribute pop
