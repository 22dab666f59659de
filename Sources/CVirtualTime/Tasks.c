// Stops tasks of hosts that have crashed or are paused, wherever they are about to run.
//
// A default actor runs the calls that wait for it one after the other, and no executor sees them. But before Swift's runtime runs a task, it
// calls a function that libswiftCore has for other libraries, which this file replaces. If the task must not run, it gets another function
// to continue with, which suspends the task as a continuation does that nothing resumes.
//
// Facts about the runtime (Swift 6.3, 64 bits) that this relies on. The tests of CrashTests fail on a toolchain that behaves otherwise:
// 1. Before each run of a task's job, the runtime calls swift_task_enterThreadLocalContext by its name. The task is then the current one.
// 2. After that call, it reads the function and the context with which the task continues, at the places that `task` has here.
// 3. A continuation is what `continuation_context` has here. To await one suspends the current task.

// For RTLD_NEXT
#define _GNU_SOURCE

#include "CVirtualTime.h"
#include "Uninstrumented.h"

#include <dlfcn.h>
#include <stdlib.h>

#define ASYNC __attribute__((swiftasynccall))
#define ASYNC_CONTEXT __attribute__((swift_async_context))

typedef ASYNC void resume_function(ASYNC_CONTEXT void *context);

/// The beginning of a Swift task
typedef struct task {
  void *header[2];
  void *scheduler_private[2];
  uint32_t flags, number;
  void *voucher, *reserved;
  resume_function *resume;
  void *context;
} task;

typedef struct executor {
  void *identity, *implementation;
} executor;

typedef struct continuation_context {
  void *parent;
  resume_function *resume;
  uint64_t flags, state;
  void *error, *result;
  /// Where the task continues
  executor executor;
  void *spare[8];
} continuation_context;

/// The continuation has set its executor
enum { HAS_EXECUTOR = 2 };

/// A task that is suspended because it must not run
typedef struct parked_task {
  continuation_context continuation;
  resume_function *resume;
  void *context;
} parked_task;

// Functions of Swift's runtime
__attribute__((swiftcall)) task *swift_task_getCurrent(void);
__attribute__((swiftcall)) executor swift_task_getCurrentExecutor(void);
__attribute__((swiftcall)) task *swift_continuation_init(continuation_context *context, uint64_t flags);
__attribute__((swiftcall)) void swift_continuation_resume(task *task);
ASYNC void swift_continuation_await(continuation_context *context);

// Defined by ActorSocketsTesting in VirtualExecutors.swift
bool actorsockets_is_stopped(uint64_t task);
void actorsockets_parks(void *task);

static ASYNC void unpark(ASYNC_CONTEXT void *context) {
  parked_task parked = *(parked_task *)context;
  free(context);
  __attribute__((musttail)) return parked.resume(parked.context);
}

static _Thread_local resume_function *parked_resume;

static ASYNC void park(ASYNC_CONTEXT void *context) {
  parked_task *parked = calloc(1, sizeof *parked);
  if (!parked) abort();
  parked->resume = parked_resume;
  parked->context = context;
  parked->continuation.parent = context;
  parked->continuation.resume = unpark;
  // The code that continues relies on its actor
  parked->continuation.executor = swift_task_getCurrentExecutor();
  actorsockets_parks(swift_continuation_init(&parked->continuation, HAS_EXECUTOR));
  swift_continuation_await(&parked->continuation);
}

void cvirtualtime_unpark(void *task) { swift_continuation_resume(task); }

typedef __attribute__((swiftcall)) void enter_function(char *state);

__attribute__((weak, swiftcall)) void swift_task_enterThreadLocalContext(char *state) {
  static _Atomic(enter_function *) function;
  enter_function *next = __c11_atomic_load(&function, __ATOMIC_RELAXED);
  if (!next) {
    next = (enter_function *)dlsym(RTLD_NEXT, "swift_task_enterThreadLocalContext");
    if (!next) return;
    __c11_atomic_store(&function, next, __ATOMIC_RELAXED);
  }
  next(state);
  if (!cvirtualtime_stops_tasks()) return;
  task *current = swift_task_getCurrent();
  if (!current || !actorsockets_is_stopped(cvirtualtime_task_number(current))) return;
  parked_resume = current->resume;
  current->resume = park;
}

#pragma clang attribute pop
