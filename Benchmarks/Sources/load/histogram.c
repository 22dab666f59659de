#include "histogram.h"

#include <string.h>

// Values below 2^PRECISION have a bucket each; every further power of two has 2^PRECISION buckets.
static unsigned bucket_shift(uint64_t value) {
  if (value >> HISTOGRAM_PRECISION_BITS == 0) return 0;
  unsigned highest_bit = 63 - (unsigned)__builtin_clzll(value);
  return highest_bit - HISTOGRAM_PRECISION_BITS;
}

static unsigned bucket_index(uint64_t value) {
  unsigned shift = bucket_shift(value);
  return (shift << HISTOGRAM_PRECISION_BITS) + (unsigned)(value >> shift);
}

// The inverse: the middle of a bucket.
static double bucket_value(unsigned index) {
  unsigned group = index >> HISTOGRAM_PRECISION_BITS;
  unsigned shift = group == 0 ? 0 : group - 1;
  uint64_t low = (uint64_t)(index - (shift << HISTOGRAM_PRECISION_BITS)) << shift;
  return (double)low + (double)((1ull << shift) - 1) / 2;
}

void histogram_clear(struct histogram *histogram) {
  memset(histogram, 0, sizeof *histogram);
}

void histogram_add(struct histogram *histogram, uint64_t nanoseconds) {
  const uint64_t largest = (1ull << HISTOGRAM_VALUE_BITS) - 1;
  if (nanoseconds > largest) nanoseconds = largest;
  histogram->counts[bucket_index(nanoseconds)]++;
  histogram->total++;
}

double histogram_percentile(const struct histogram *histogram, double fraction) {
  double wanted = fraction * (double)histogram->total;
  uint64_t seen = 0;
  for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
    seen += histogram->counts[i];
    if (seen > 0 && (double)seen >= wanted) return bucket_value(i);
  }
  return 0;
}
