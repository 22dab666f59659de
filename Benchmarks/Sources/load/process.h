// What another process uses, as the kernel accounts it.

#ifndef PROCESS_H
#define PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

// The clock and the processor time of a process and of this one, read together.
struct sample {
  uint64_t time;
  uint64_t cpu;
  uint64_t own_cpu;
};

uint64_t monotonic_ns(void);

// User and system time of all threads of a process. False if there is no such process.
bool process_cpu_ns(pid_t pid, uint64_t *nanoseconds);

// Says so on standard error and returns false if there is no such process. Without one (0), its time is 0.
bool take_sample(pid_t pid, struct sample *sample);

// Memory that would be free without the process: Private_Clean + Private_Dirty.
bool process_private_bytes(pid_t pid, uint64_t *bytes);

#endif
