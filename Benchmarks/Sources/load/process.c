#include "process.h"

#include <stdio.h>
#include <time.h>
#include <unistd.h>

static uint64_t nanoseconds_of(struct timespec time) {
  return (uint64_t)time.tv_sec * 1000000000u + (uint64_t)time.tv_nsec;
}

uint64_t monotonic_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return nanoseconds_of(now);
}

bool process_cpu_ns(pid_t pid, uint64_t *nanoseconds) {
  clockid_t clock;
  struct timespec time;
  if (clock_getcpuclockid(pid, &clock) != 0 || clock_gettime(clock, &time) < 0) return false;
  *nanoseconds = nanoseconds_of(time);
  return true;
}

bool take_sample(pid_t pid, struct sample *sample) {
  sample->time = monotonic_ns();
  sample->cpu = 0;
  sample->own_cpu = 0;
  process_cpu_ns(getpid(), &sample->own_cpu);
  if (pid == 0 || process_cpu_ns(pid, &sample->cpu)) return true;
  fprintf(stderr, "load: process %d is gone\n", (int)pid);
  return false;
}

bool process_private_bytes(pid_t pid, uint64_t *bytes) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/smaps_rollup", (int)pid);
  FILE *file = fopen(path, "r");
  if (!file) return false;

  char line[256];
  unsigned long long kilobytes, sum = 0;
  int found = 0;
  while (fgets(line, sizeof line, file)) {
    if (sscanf(line, "Private_Clean: %llu kB", &kilobytes) == 1 ||
        sscanf(line, "Private_Dirty: %llu kB", &kilobytes) == 1) {
      sum += kilobytes;
      found++;
    }
  }
  fclose(file);
  *bytes = sum * 1024;
  return found == 2;
}
