// Load for an echo server on this machine.
//
//   load echo HOST PORT --connections N [--size BYTES] --seconds S [--warmup S] [--pid SERVER_PID]
//   load churn HOST PORT --connections N [--size BYTES] --seconds S [--warmup S] [--pid SERVER_PID]
//   load idle HOST PORT --connections N [--hold S] --pid SERVER_PID
//   load udp HOST PORT --sockets N [--in-flight N] [--size BYTES] --seconds S [--warmup S] [--pid SERVER_PID]
//
// Prints one line of JSON. Exit status: 0 if all went well, 1 if a byte was wrong, a connection failed
// or the server is gone, 2 for a mistake in the arguments.

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

enum { DESCRIPTORS_BESIDE_CONNECTIONS = 16 };

static bool parse_number(const char *text, double least, double most, double *result) {
  char *end;
  *result = strtod(text, &end);
  return end != text && *end == '\0' && *result >= least && *result <= most;
}

static bool parse_count(const char *text, double most, unsigned *result) {
  double number;
  if (!parse_number(text, 1, most, &number) || number != (double)(unsigned)number) return false;
  *result = (unsigned)number;
  return true;
}

// Everything has an upper bound, so that a slip of the finger ends by itself.
static bool parse_option(struct options *options, const char *name, const char *value) {
  unsigned pid;
  if (!strcmp(name, "--connections")) return parse_count(value, 20000, &options->connections);
  if (!strcmp(name, "--sockets")) return parse_count(value, 1024, &options->connections);
  if (!strcmp(name, "--in-flight")) return parse_count(value, 64, &options->in_flight);
  if (!strcmp(name, "--size")) return parse_count(value, 65536, &options->size);
  if (!strcmp(name, "--seconds")) return parse_number(value, 0.01, 600, &options->seconds);
  if (!strcmp(name, "--warmup")) return parse_number(value, 0, 60, &options->warmup);
  if (!strcmp(name, "--hold")) return parse_number(value, 0, 60, &options->hold);
  if (!strcmp(name, "--pid")) {
    if (!parse_count(value, 1 << 22, &pid)) return false;
    options->pid = (pid_t)pid;
    return true;
  }
  return false;
}

static int usage(const char *problem, const char *detail) {
  fprintf(stderr,
          "load: %s%s\n"
          "usage: load echo|churn HOST PORT --connections N [--size BYTES] --seconds S [--warmup S] [--pid PID]\n"
          "       load idle HOST PORT --connections N [--hold S] --pid PID\n"
          "       load udp HOST PORT --sockets N [--in-flight N] [--size BYTES] --seconds S [--warmup S] [--pid PID]\n",
          problem, detail);
  return 2;
}

int main(int argc, char **argv) {
  if (argc < 4) return usage("too few arguments", "");
  bool idle = !strcmp(argv[1], "idle"), churn = !strcmp(argv[1], "churn"), udp = !strcmp(argv[1], "udp");
  if (!idle && !churn && !udp && strcmp(argv[1], "echo")) {
    return usage("neither echo nor churn nor idle nor udp: ", argv[1]);
  }

  struct options options = {.size = 64, .in_flight = 16, .hold = 1};
  if (!target_parse(&options.target, argv[2], argv[3])) {
    return usage("HOST PORT must be a numeric loopback address and a port", "");
  }
  for (int i = 4; i < argc; i += 2) {
    if (i + 1 == argc || !parse_option(&options, argv[i], argv[i + 1])) {
      return usage("unknown, or without a value in its range: ", argv[i]);
    }
  }
  if (options.connections == 0) return usage(udp ? "--sockets is missing" : "--connections is missing", "");
  if (!idle && options.seconds == 0) return usage("--seconds is missing", "");
  if (idle && options.pid == 0) return usage("--pid is missing", "");

  if (!allow_descriptors(options.connections + DESCRIPTORS_BESIDE_CONNECTIONS)) {
    fprintf(stderr, "load: more connections than the limit of open files allows (ulimit -Hn)\n");
    return 1;
  }
  if (idle) return run_idle(&options);
  if (udp) return run_udp(&options);
  return churn ? run_churn(&options) : run_echo(&options);
}
