#ifndef CVIRTUALTIME_H
#define CVIRTUALTIME_H

// The clocks of a thread that lives in virtual time.
//
// This target replaces clock_gettime(2) in the program that links it. `ContinuousClock` and `SuspendingClock` call it, and so do the
// reactors. On a thread in virtual time, CLOCK_MONOTONIC and CLOCK_BOOTTIME show that time. On all other threads, and for all other
// clocks, the call goes to the C library; it then takes one more jump through a pointer.

#include <stdint.h>

/// A virtual time. Its thread sets it, and any thread may read it
typedef struct cvirtualtime_clock {
  _Atomic int64_t nanoseconds;
} cvirtualtime_clock;

/// Creates a clock that shows this time. It ends the program if there is no memory
cvirtualtime_clock *_Nonnull cvirtualtime_create(int64_t nanoseconds);
/// Frees a clock that no thread uses
void cvirtualtime_free(cvirtualtime_clock *_Nonnull clock);

int64_t cvirtualtime_read(const cvirtualtime_clock *_Nonnull clock);
void cvirtualtime_set(cvirtualtime_clock *_Nonnull clock, int64_t nanoseconds);

/// From now on the calling thread lives in the time of this clock, or in real time again if it is NULL. `owner` is what
/// `cvirtualtime_owner` returns there
void cvirtualtime_enter(const cvirtualtime_clock *_Nullable clock, void *_Nullable owner);
/// The owner of the calling thread's virtual time; NULL in real time
void *_Nullable cvirtualtime_owner(void);

/// The number of the Swift task to which a job belongs. No other task of the process has it
uint64_t cvirtualtime_task_number(void *_Nonnull job);
/// The number of the Swift task that runs on the calling thread; 0 if there is none
uint64_t cvirtualtime_current_task_number(void);

#endif
