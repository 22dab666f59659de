// For RTLD_NEXT and pthread_kill
#define _GNU_SOURCE

#include "CVirtualTime.h"
#include "Uninstrumented.h"

#include <dlfcn.h>
#include <errno.h>
#include <execinfo.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

// Defined by ActorSocketsTesting in VirtualThread+Blocking.swift
void actorsockets_thread_sleeps(int64_t nanoseconds);
void actorsockets_uses(int helper);

// MARK: Sleeping threads

/// The thread of a simulation does not sleep: no time would pass meanwhile, and nothing else could run
static void refuse_sleep(const struct timespec *time) {
  int64_t nanoseconds;
  if (__builtin_mul_overflow(time->tv_sec, (int64_t)1000000000, &nanoseconds) ||
      __builtin_add_overflow(nanoseconds, time->tv_nsec, &nanoseconds)) {
    nanoseconds = INT64_MAX;
  }
  actorsockets_thread_sleeps(nanoseconds);
}

typedef int clock_nanosleep_function(clockid_t, int, const struct timespec *, struct timespec *);

int clock_nanosleep(clockid_t clock, int flags, const struct timespec *time, struct timespec *rest) {
  static _Atomic(clock_nanosleep_function *) function;
  if (cvirtualtime_owner()) {
    struct timespec now, distance = *time;
    if (flags & TIMER_ABSTIME) {
      clock_gettime(clock, &now);
      distance.tv_sec -= now.tv_sec;
      distance.tv_nsec -= now.tv_nsec;
    }
    refuse_sleep(&distance);
    return 0;
  }
  clock_nanosleep_function *next = atomic_load_explicit(&function, memory_order_relaxed);
  if (!next) {
    next = (clock_nanosleep_function *)dlsym(RTLD_NEXT, "clock_nanosleep");
    if (!next) abort();
    atomic_store_explicit(&function, next, memory_order_relaxed);
  }
  return next(clock, flags, time, rest);
}

// The functions that sleep, made of the one above as in the C library

int nanosleep(const struct timespec *time, struct timespec *rest) {
  int error = clock_nanosleep(CLOCK_REALTIME, 0, time, rest);
  if (error == 0) return 0;
  errno = error;
  return -1;
}

int usleep(useconds_t microseconds) {
  struct timespec time = {.tv_sec = microseconds / 1000000, .tv_nsec = microseconds % 1000000 * 1000};
  return nanosleep(&time, NULL);
}

unsigned sleep(unsigned seconds) {
  struct timespec time = {.tv_sec = seconds}, rest = {0};
  if (nanosleep(&time, &rest) == 0) return 0;
  return (unsigned)rest.tv_sec + (rest.tv_nsec > 500000000);
}

void cvirtualtime_wait(int64_t seconds) {
  struct timespec time = {.tv_sec = seconds};
  nanosleep(&time, NULL);
}

// MARK: Threads and Dispatch

/// The next function with this name, which the library has that the program shares
#define NEXT(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

// The sanitizers replace it themselves
#if !__has_feature(thread_sanitizer) && !__has_feature(address_sanitizer)
__attribute__((weak)) int pthread_create(
  pthread_t *thread, const pthread_attr_t *attributes, void *(*body)(void *), void *argument) {
  if (cvirtualtime_owner()) actorsockets_uses(CVIRTUALTIME_THREADS);
  return NEXT(pthread_create)(thread, attributes, body, argument);
}
#endif

// Of Dispatch, without its headers. Weak, because a program can contain Dispatch: then its functions stay
#define WEAK __attribute__((weak))

static void uses_dispatch(void) {
  if (cvirtualtime_owner()) actorsockets_uses(CVIRTUALTIME_DISPATCH);
}

WEAK void dispatch_async(void *queue, void *block) {
  uses_dispatch();
  NEXT(dispatch_async)(queue, block);
}

WEAK void dispatch_group_async(void *group, void *queue, void *block) {
  uses_dispatch();
  NEXT(dispatch_group_async)(group, queue, block);
}

WEAK void dispatch_barrier_async(void *queue, void *block) {
  uses_dispatch();
  NEXT(dispatch_barrier_async)(queue, block);
}

WEAK void dispatch_after(uint64_t time, void *queue, void *block) {
  uses_dispatch();
  NEXT(dispatch_after)(time, queue, block);
}

WEAK void *dispatch_source_create(void *type, uintptr_t handle, unsigned long mask, void *queue) {
  uses_dispatch();
  return NEXT(dispatch_source_create)(type, handle, mask, queue);
}

// MARK: The end of a process whose simulation is stuck

static void *frames[64];
static _Atomic int frame_count = -1;

static void take_frames(int signal) {
  (void)signal;
  frame_count = backtrace(frames, sizeof frames / sizeof *frames);
}

/// Prints the offsets in the files, which addr2line(1) and llvm-symbolizer(1) turn into names and lines
static void print_frames(void) {
  // The first two are the handler and the kernel's call of it
  for (int number = 2; number < frame_count; number += 1) {
    Dl_info info = {0};
    dladdr(frames[number], &info);
    dprintf(STDERR_FILENO, "%4d  %s+0x%zx  %s\n", number - 2, info.dli_fname ? info.dli_fname : "",
      (size_t)((char *)frames[number] - (char *)info.dli_fbase), info.dli_sname ? info.dli_sname : "");
  }
}

void cvirtualtime_abort(const cvirtualtime_clock *clock, const char *reason) {
  dprintf(STDERR_FILENO, "%s\n", reason);
  // The first call loads a library, which a handler must not do
  void *first;
  backtrace(&first, 1);
  // startThread leaves both signals unblocked
  struct sigaction action = {.sa_handler = take_frames, .sa_flags = SA_RESTART};
  sigaction(SIGPROF, &action, NULL);
  pthread_kill(clock->thread, SIGPROF);
  for (int second = 0; frame_count < 0 && second < 5; second += 1) cvirtualtime_wait(1);
  print_frames();
  // It ends the process. Before that, Swift's runtime prints the backtrace of the thread with names, as far as the frame pointers lead, if
  // the runtime handles the signal. A debugger stops here
  pthread_kill(clock->thread, SIGTRAP);
  cvirtualtime_wait(60);
  abort();
}

#pragma clang attribute pop
