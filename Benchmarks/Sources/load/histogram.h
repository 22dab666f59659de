// Latencies in nanoseconds, counted in buckets less than one percent wide.

#ifndef HISTOGRAM_H
#define HISTOGRAM_H

#include <stdint.h>

enum {
  HISTOGRAM_PRECISION_BITS = 7,
  HISTOGRAM_VALUE_BITS = 40,  // 18 minutes; longer ones count as that
  HISTOGRAM_BUCKETS = (HISTOGRAM_VALUE_BITS - HISTOGRAM_PRECISION_BITS + 1) << HISTOGRAM_PRECISION_BITS
};

struct histogram {
  uint64_t total;
  uint64_t counts[HISTOGRAM_BUCKETS];
};

void histogram_clear(struct histogram *histogram);
void histogram_add(struct histogram *histogram, uint64_t nanoseconds);

// The value under which `fraction` of all values lie; 0 of an empty histogram.
double histogram_percentile(const struct histogram *histogram, double fraction);

#endif
