// What another process uses, as the kernel accounts it.

#ifndef PROCESS_H
#define PROCESS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

uint64_t monotonic_ns(void);

// User and system time of all threads of a process. False if there is no such process.
bool process_cpu_ns(pid_t pid, uint64_t *nanoseconds);

// Memory that would be free without the process: Private_Clean + Private_Dirty.
bool process_private_bytes(pid_t pid, uint64_t *bytes);

#endif
