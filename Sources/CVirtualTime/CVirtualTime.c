// For RTLD_NEXT
#define _GNU_SOURCE

#include "CVirtualTime.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

static _Thread_local const cvirtualtime_clock *thread_clock;
static _Thread_local void *thread_owner;

cvirtualtime_clock *cvirtualtime_create(int64_t nanoseconds) {
  cvirtualtime_clock *clock = malloc(sizeof *clock);
  if (!clock) abort();
  clock->nanoseconds = nanoseconds;
  return clock;
}

void cvirtualtime_free(cvirtualtime_clock *clock) { free(clock); }

int64_t cvirtualtime_read(const cvirtualtime_clock *clock) {
  return __c11_atomic_load(&clock->nanoseconds, __ATOMIC_RELAXED);
}

void cvirtualtime_set(cvirtualtime_clock *clock, int64_t nanoseconds) {
  __c11_atomic_store(&clock->nanoseconds, nanoseconds, __ATOMIC_RELAXED);
}

void cvirtualtime_enter(const cvirtualtime_clock *clock, void *owner) {
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

int clock_gettime(clockid_t clock, struct timespec *time) {
  const cvirtualtime_clock *here = thread_clock;
  if (!here || (clock != CLOCK_MONOTONIC && clock != CLOCK_BOOTTIME)) return next_clock_gettime(clock, time);
  int64_t now = cvirtualtime_read(here);
  time->tv_sec = now / 1000000000;
  time->tv_nsec = now % 1000000000;
  return 0;
}

// Defined by ActorSocketsTesting in VirtualExecutors.swift
void actorsockets_install_virtual_executors(void);

/// Runs before the program does. The runtime's executors are exchanged here because no other thread uses them yet
__attribute__((constructor)) static void install(void) { actorsockets_install_virtual_executors(); }
