// Watches the tasks of a simulation, and stops those of hosts that have crashed or are paused, wherever they are about to run.
//
// A task belongs to the host whose code makes it, and no executor sees a task that begins in an actor. So this file replaces the function
// that makes tasks. A task has ended if it ran and was not suspended when the job that ran it returns.
//
// A default actor runs the calls that wait for it one after the other, and no executor sees them. But before Swift's runtime runs a task, it
// calls a function that libswiftCore has for other libraries, which this file replaces. If the task must not run, it gets another function
// to continue with, which suspends the task as a continuation does that nothing resumes.
//
// Facts about the runtime (Swift 6.3, 64 bits) that this relies on. The tests of CrashTests fail on a toolchain that behaves otherwise:
// 1. Before each run of a task's job, the runtime calls swift_task_enterThreadLocalContext by its name. The task is then the current one.
// 2. After that call, it reads the function and the context with which the task continues, at the places that `task` has here.
// 3. A continuation is what `continuation_context` has here. To await one suspends the current task.
// 4. When a task is suspended, the runtime calls swift_task_exitThreadLocalContext by its name before another job runs on the thread, with the
//    same pointer as before the run. It does not call it when a task ends.
// 5. Programs make their tasks with swift_task_create, apart from the children of `async let`, which are seen when they run first.

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
void actorsockets_creates(uint64_t task);
bool actorsockets_must_stop(uint64_t task);
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

// MARK: Which tasks run

/// A task that runs, with its state in the runtime
typedef struct running_task {
  const char *state;
  uint64_t number;
} running_task;

/// The tasks that have run on this thread since `cvirtualtime_next_ended` returned 0, and are not suspended
static _Thread_local struct {
  running_task *tasks;
  size_t count, room;
} awake;

static void wakes(const char *state, uint64_t number) {
  if (awake.count == awake.room) {
    awake.room = awake.room ? 2 * awake.room : 64;
    awake.tasks = realloc(awake.tasks, awake.room * sizeof *awake.tasks);
    if (!awake.tasks) abort();
  }
  awake.tasks[awake.count++] = (running_task){state, number};
}

/// The last one with this state: an earlier one has ended, and its memory belongs to another task now
static void falls_asleep(const char *state) {
  for (size_t index = awake.count; index > 0; index -= 1) {
    if (awake.tasks[index - 1].state != state) continue;
    awake.tasks[index - 1] = awake.tasks[--awake.count];
    return;
  }
}

uint64_t cvirtualtime_next_ended(void) { return awake.count ? awake.tasks[--awake.count].number : 0; }

void cvirtualtime_forget_tasks(void) {
  free(awake.tasks);
  awake.tasks = NULL;
  awake.count = awake.room = 0;
}

static _Atomic(bool) sees;

bool cvirtualtime_sees_tasks(void) { return __c11_atomic_load(&sees, __ATOMIC_RELAXED); }

// MARK: Functions of the runtime

typedef __attribute__((swiftcall)) void context_function(char *state);

static context_function *next_function(_Atomic(context_function *) *function, const char *name) {
  context_function *next = __c11_atomic_load(function, __ATOMIC_RELAXED);
  if (!next) {
    next = (context_function *)dlsym(RTLD_NEXT, name);
    __c11_atomic_store(function, next, __ATOMIC_RELAXED);
  }
  return next;
}

__attribute__((weak, swiftcall)) void swift_task_enterThreadLocalContext(char *state) {
  static _Atomic(context_function *) function;
  context_function *next = next_function(&function, "swift_task_enterThreadLocalContext");
  if (next) next(state);
  if (!cvirtualtime_owner()) return;
  task *current = swift_task_getCurrent();
  if (!current) return;
  __c11_atomic_store(&sees, true, __ATOMIC_RELAXED);
  uint64_t number = cvirtualtime_task_number(current);
  wakes(state, number);
  if (!actorsockets_must_stop(number)) return;
  parked_resume = current->resume;
  current->resume = park;
}

__attribute__((weak, swiftcall)) void swift_task_exitThreadLocalContext(char *state) {
  static _Atomic(context_function *) function;
  context_function *next = next_function(&function, "swift_task_exitThreadLocalContext");
  if (next) next(state);
  if (cvirtualtime_owner()) falls_asleep(state);
}

typedef struct created_task {
  task *task;
  void *context;
} created_task;

typedef __attribute__((swiftcall)) created_task create_function(
    size_t flags, void *options, const void *type, void *entry, void *context);

__attribute__((weak, swiftcall)) created_task swift_task_create(
    size_t flags, void *options, const void *type, void *entry, void *context) {
  static _Atomic(create_function *) function;
  create_function *next = __c11_atomic_load(&function, __ATOMIC_RELAXED);
  if (!next) {
    next = (create_function *)dlsym(RTLD_NEXT, "swift_task_create");
    if (!next) abort();
    __c11_atomic_store(&function, next, __ATOMIC_RELAXED);
  }
  created_task created = next(flags, options, type, entry, context);
  if (cvirtualtime_owner()) actorsockets_creates(cvirtualtime_task_number(created.task));
  return created;
}

#pragma clang attribute pop
