// What all measurements of requests print alike.

#ifndef REPORT_H
#define REPORT_H

#include <stdbool.h>
#include <stdint.h>

#include "histogram.h"
#include "options.h"
#include "process.h"

// A stretch of time, and the requests that ended in it.
struct measured {
  struct sample start;
  struct sample end;
  struct histogram latencies;
};

// Begins a line of JSON that the caller ends, without a comma at its end. `completed` are all requests, also those
// outside the measured time.
void print_measured(const struct options *options, const struct measured *measured, uint64_t completed);

// The exit status of a run that went well, or did not, and had so many wrong bytes. `measured` is what the measured time was
// for: requests, or bytes.
int exit_status(bool went_well, uint64_t wrong_bytes, uint64_t measured);

// How much of the time this program ran: near 1, it was the limit.
double load_cpu_share(const struct measured *measured);

#endif
