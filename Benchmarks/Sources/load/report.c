#include "report.h"

#include <inttypes.h>
#include <stdio.h>

static void print_cpu(const struct measured *measured) {
  double cpu = (double)(measured->end.cpu - measured->start.cpu);
  printf(", \"server_cpu_us_per_request\": %.4f, \"server_cpu_share\": %.4f",
         cpu / 1e3 / (double)measured->latencies.total, cpu / (double)(measured->end.time - measured->start.time));
}

int exit_status(bool went_well, uint64_t wrong_bytes, uint64_t measured) {
  if (wrong_bytes > 0) return WRONG_BYTES;
  if (!went_well) return FAILED;
  if (measured > 0) return 0;
  fprintf(stderr, "load: nothing came back in the measured time\n");
  return STOOD_STILL;
}

double load_cpu_share(const struct measured *measured) {
  return (double)(measured->end.own_cpu - measured->start.own_cpu) /
         (double)(measured->end.time - measured->start.time);
}

void print_measured(const struct options *options, const struct measured *measured, uint64_t completed) {
  const struct histogram *latencies = &measured->latencies;
  double seconds = (double)(measured->end.time - measured->start.time) / 1e9;
  printf("{\"connections\": %u, \"size\": %u, \"requests\": %" PRIu64 ", \"seconds\": %.6f"
         ", \"requests_per_second\": %.1f",
         options->connections, options->size, latencies->total, seconds, (double)latencies->total / seconds);
  printf(", \"p50_us\": %.2f, \"p99_us\": %.2f, \"p99.9_us\": %.2f", histogram_percentile(latencies, 0.5) / 1e3,
         histogram_percentile(latencies, 0.99) / 1e3, histogram_percentile(latencies, 0.999) / 1e3);
  if (options->pid && latencies->total > 0) {
    print_cpu(measured);
  } else {
    printf(", \"server_cpu_us_per_request\": null, \"server_cpu_share\": null");
  }
  printf(", \"load_cpu_share\": %.4f", load_cpu_share(measured));
  printf(", \"total_requests\": %" PRIu64, completed);
}
