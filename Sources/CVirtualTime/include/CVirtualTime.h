#ifndef CVIRTUALTIME_H
#define CVIRTUALTIME_H

// The clocks and the random numbers of a thread that lives in virtual time.
//
// This target replaces clock_gettime(2), time(2), gettimeofday(2) and timespec_get(3) in the program that links it, and in its shared
// libraries. `ContinuousClock`, `SuspendingClock`, the reactors, Foundation's `Date` and OpenSSL call them. On a thread in virtual time,
// the variants of CLOCK_MONOTONIC, CLOCK_BOOTTIME and CLOCK_REALTIME show virtual times. On all other threads, and for all other clocks,
// the call goes to the C library; it then takes one more jump through a pointer.
//
// On a thread in virtual time, sleep(3), usleep(3), nanosleep(2) and clock_nanosleep(2) do not sleep, and tell the simulation. It also hears
// of threads that the program starts there, and of work for Dispatch.
//
// It also replaces the functions from which programs get random numbers: getrandom(2) and syscall(2), getentropy(3), arc4random(3),
// and those beneath Foundation's `UUID`. Swift's `SystemRandomNumberGenerator` calls syscall(2). On a thread in virtual time the simulation answers, on others the kernel.
// The hash of Swift's Set and Dictionary begins with the same number in each process, on all threads.

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

/// A virtual time. Its thread sets it, and any thread may read it
typedef struct cvirtualtime_clock {
  _Atomic int64_t nanoseconds;
  /// The time of day when `nanoseconds` is zero: nanoseconds since 1970
  int64_t time_of_day;
  /// Whether the thread asks `actorsockets_host_clock`, because hosts have clocks of their own
  bool asks;
  /// The thread that entered last
  _Atomic pthread_t thread;
} cvirtualtime_clock;

/// Creates a clock that shows this time, and the time of day when that time is zero. It ends the program if there is no memory
cvirtualtime_clock *_Nonnull cvirtualtime_create(int64_t nanoseconds, int64_t time_of_day);
/// Frees a clock that no thread uses
void cvirtualtime_free(cvirtualtime_clock *_Nonnull clock);

int64_t cvirtualtime_read(const cvirtualtime_clock *_Nonnull clock);
void cvirtualtime_set(cvirtualtime_clock *_Nonnull clock, int64_t nanoseconds);

/// From now on the thread of this clock asks `actorsockets_host_clock` what to show. That thread calls it
void cvirtualtime_ask(cvirtualtime_clock *_Nonnull clock);
/// Lets a task continue that was suspended because it was stopped
void cvirtualtime_unpark(void *_Nonnull task);
/// A task that has ended on the calling thread, each once; 0 if there is no further one. Called while no task runs there
uint64_t cvirtualtime_next_ended(void);
/// Frees what this thread has kept for `cvirtualtime_next_ended`
void cvirtualtime_forget_tasks(void);
/// Whether Swift's runtime calls the functions that this target replaces. It does not in a program that contains the runtime
bool cvirtualtime_sees_tasks(void);
/// Whether a copy of the process can start threads. With the thread sanitizer it cannot
bool cvirtualtime_copies_start_threads(void);
/// The real time of day on any thread: nanoseconds since 1970
int64_t cvirtualtime_real_time_of_day(void);

/// From now on the calling thread lives in the time of this clock, or in real time again if it is NULL. `owner` is what
/// `cvirtualtime_owner` returns there
void cvirtualtime_enter(cvirtualtime_clock *_Nullable clock, void *_Nullable owner);
/// The owner of the calling thread's virtual time; NULL in real time
void *_Nullable cvirtualtime_owner(void);

/// Whether sets and dictionaries have the same order in each process
bool cvirtualtime_hashes_repeat(void);
/// From now on OpenSSL, if the program has loaded it, gets the random numbers of the calling thread. Called once
void cvirtualtime_replace_openssl_random(void);

/// What works on threads of its own, so that a simulation does not wait for it
enum { CVIRTUALTIME_THREADS, CVIRTUALTIME_DISPATCH };

/// Waits for this many seconds in real time. Not on a thread in virtual time
void cvirtualtime_wait(int64_t seconds);
/// Prints why the process ends, and ends it by a SIGTRAP for the thread of this clock. Any thread
_Noreturn void cvirtualtime_abort(const cvirtualtime_clock *_Nonnull clock, const char *_Nonnull reason);

/// Another process that runs simulations
typedef struct cvirtualtime_child {
  pid_t process;
  int descriptor;
  /// Its standard error
  int errors;
} cvirtualtime_child;

/// Makes a process that is a copy of this one and continues on the calling thread only: fork(2). It has no sockets and pipes, its standard
/// output leads nowhere, and its heap has holes, so that new objects have another order in memory. It ends with the calling thread, by the
/// signals that end programs, and after these seconds. Returns 0 in the child, 1 in the parent, and a negative error number
int cvirtualtime_fork(cvirtualtime_child *_Nonnull child, unsigned seconds);
/// Called in the child: gives the parent these bytes. It ends the process if that is not possible
void cvirtualtime_send(const cvirtualtime_child *_Nonnull child, const void *_Nonnull bytes, size_t count);
/// Called in the child: ends the process after these seconds from now on; 0 means never
void cvirtualtime_limit(unsigned seconds);
/// Called in the child
_Noreturn void cvirtualtime_exit(void);

/// Called in the parent: waits for bytes of the child, and returns how many there are. `is_error`: they are of its standard error. Returns 0
/// after the last ones, when the child has ended
size_t cvirtualtime_receive(
    cvirtualtime_child *_Nonnull child, void *_Nonnull bytes, size_t room, bool *_Nonnull is_error);
/// Called in the parent, before it has waited for the end
void cvirtualtime_kill(const cvirtualtime_child *_Nonnull child);
/// Called in the parent: waits for the end. Returns the status of wait(2), or -1 if other code has taken it
int cvirtualtime_wait_for_end(const cvirtualtime_child *_Nonnull child);

/// The number of the Swift task to which a job belongs. No other task of the process has it
uint64_t cvirtualtime_task_number(void *_Nonnull job);
/// The number of the Swift task that runs on the calling thread; 0 if no task does
uint64_t cvirtualtime_current_task_number(void);

#endif
