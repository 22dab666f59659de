// Load for a server on this machine: one that echoes, or what the mode says.
//
//   load echo HOST PORT --connections N [--in-flight N] [--size BYTES] --seconds S [--warmup S] [--pid SERVER_PID]
//   load churn HOST PORT --connections N [--size BYTES] --seconds S [--warmup S] [--pid SERVER_PID]
//   load bulk HOST PORT --connections N --direction up|down [--rate MB_PER_SECOND] --seconds S [--warmup S]
//        [--pid SERVER_PID]
//   load hose HOST PORT [--connections N] --quiet N [--rate REQUESTS_PER_SECOND] [--size BYTES] --seconds S [--warmup S] [--pid SERVER_PID]
//   load fanout HOST PORT --connections N [--size BYTES] --seconds S [--warmup S] [--pid SERVER_PID]
//   load jobs HOST PORT --connections N [--size BYTES] --seconds S [--warmup S] [--pid SERVER_PID]
//   load idle HOST PORT --connections N [--hold S] --pid SERVER_PID
//   load udp HOST PORT --sockets N [--in-flight N] [--size BYTES] --seconds S [--warmup S] [--pid SERVER_PID]
//   load udp-stream HOST PORT --sockets N --direction up|down [--in-flight N] [--size BYTES] --seconds S [--warmup S]
//        [--pid SERVER_PID]
//   load lines, messages HOST PORT [--size BYTES] --requests N [--pid SERVER_PID]
//   load tls-echo, tls-bulk, tls-idle: as echo, bulk and idle, encrypted
//   load tls-handshakes HOST PORT --connections N [--session new|resumed] --seconds S [--warmup S] [--pid SERVER_PID]
//
// --requests N instead of --seconds (not for bulk or hose): so many in all, and no warm-up. All of them have to be answered.
//
// Prints one line of JSON. Exit status: 0 if all went well, 1 if a connection failed, an answer is missing or the server is
// gone, 2 for a mistake in the arguments, 3 if a byte was wrong, 4 if nothing came back in the measured time.

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "options.h"

enum { DESCRIPTORS_BESIDE_CONNECTIONS = 16, SECONDS_FOR_REQUESTS = 300 };

struct mode {
  const char *name;
  int (*run)(const struct options *options);
  unsigned in_flight;  // of each connection or socket, unless the arguments say otherwise
  bool encrypted;
  bool is_timed;   // needs --seconds or --requests, and otherwise --pid
  bool is_single;  // has one connection, and needs --requests
};

static const struct mode MODES[] = {
    {"echo", run_echo, 1, false, true, false},
    {"churn", run_churn, 1, false, true, false},
    {"bulk", run_bulk, 1, false, true, false},
    {"hose", run_hose, 1, false, true, false},
    {"fanout", run_fanout, 1, false, true, false},
    {"jobs", run_jobs, 1, false, true, false},
    {"idle", run_idle, 1, false, false, false},
    {"udp", run_udp, 16, false, true, false},
    {"udp-stream", run_udp_stream, 32, false, true, false},
    {"lines", run_lines, 1, false, true, true},
    {"messages", run_messages, 1, false, true, true},
    {"tls-echo", run_echo, 1, true, true, false},
    {"tls-idle", run_idle, 1, true, false, false},
    {"tls-handshakes", run_tls_handshakes, 1, true, true, false},
    {"tls-bulk", run_bulk, 1, true, true, false},
};

static const struct mode *find_mode(const char *name) {
  for (unsigned i = 0; i < sizeof MODES / sizeof *MODES; i++) {
    if (!strcmp(MODES[i].name, name)) return &MODES[i];
  }
  return NULL;
}

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

// One of two words; true for the second.
static bool parse_choice(const char *text, const char *first, const char *second, bool *result) {
  *result = !strcmp(text, second);
  return *result || !strcmp(text, first);
}

// Everything has an upper bound, so that a slip of the finger ends by itself.
static bool parse_option(struct options *options, const char *name, const char *value) {
  unsigned pid;
  if (!strcmp(name, "--connections")) return parse_count(value, 20000, &options->connections);
  if (!strcmp(name, "--sockets")) return parse_count(value, 1024, &options->connections);
  if (!strcmp(name, "--in-flight")) return parse_count(value, 64, &options->in_flight);
  if (!strcmp(name, "--quiet")) return parse_count(value, 20000, &options->quiet);
  if (!strcmp(name, "--size")) return parse_count(value, 65536, &options->size);
  if (!strcmp(name, "--requests")) return parse_count(value, 1e9, &options->requests);
  if (!strcmp(name, "--seconds")) return parse_number(value, 0.01, 600, &options->seconds);
  if (!strcmp(name, "--warmup")) return parse_number(value, 0, 60, &options->warmup);
  if (!strcmp(name, "--hold")) return parse_number(value, 0, 60, &options->hold);
  if (!strcmp(name, "--session")) return parse_choice(value, "new", "resumed", &options->resumes);
  if (!strcmp(name, "--direction")) return parse_choice(value, "down", "up", &options->uploads);
  if (!strcmp(name, "--rate")) return parse_number(value, 0, 100000, &options->rate);
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
          "usage: load echo HOST PORT --connections N [--in-flight N] [--size BYTES] --seconds S [--warmup S] [--pid PID]\n"
          "       load churn HOST PORT --connections N [--size BYTES] --seconds S [--warmup S] [--pid PID]\n"
          "       load bulk HOST PORT --connections N --direction up|down [--rate MB_PER_SECOND] --seconds S [--warmup S]\n"
          "                 [--pid PID]\n"
          "       load hose HOST PORT [--connections N] --quiet N [--rate N] [--size BYTES] --seconds S [--warmup S] [--pid PID]\n"
          "       load fanout HOST PORT --connections N [--size BYTES] --seconds S [--warmup S] [--pid PID]\n"
          "       load jobs HOST PORT --connections N [--size BYTES] --seconds S [--warmup S] [--pid PID]\n"
          "       load idle HOST PORT --connections N [--hold S] --pid PID\n"
          "       load udp HOST PORT --sockets N [--in-flight N] [--size BYTES] --seconds S [--warmup S] [--pid PID]\n"
          "       load udp-stream HOST PORT --sockets N --direction up|down [--in-flight N] [--size BYTES] --seconds S\n"
          "                       [--warmup S] [--pid PID]\n"
          "       load lines, messages HOST PORT [--size BYTES] --requests N [--pid PID]\n"
          "       load tls-echo, tls-bulk, tls-idle: as echo, bulk and idle\n"
          "       load tls-handshakes HOST PORT --connections N [--session new|resumed] --seconds S [--warmup S]\n"
          "                           [--pid PID]\n"
          "       --requests N instead of --seconds (not for bulk or hose): so many in all, and no warm-up\n",
          problem, detail);
  return MISTAKE;
}

int main(int argc, char **argv) {
  if (argc < 4) return usage("too few arguments", "");
  const struct mode *mode = find_mode(argv[1]);
  if (!mode) return usage("no such mode: ", argv[1]);

  struct options options = {.size = 64, .in_flight = mode->in_flight, .hold = 1, .encrypted = mode->encrypted};
  if (!target_parse(&options.target, argv[2], argv[3])) {
    return usage("HOST PORT must be a numeric loopback address and a port", "");
  }
  for (int i = 4; i < argc; i += 2) {
    if (i + 1 == argc || !parse_option(&options, argv[i], argv[i + 1])) {
      return usage("unknown, or without a value in its range: ", argv[i]);
    }
  }
  if (options.requests > 0) {
    // A time only for the case that some are not answered.
    options.seconds = SECONDS_FOR_REQUESTS;
    options.warmup = 0;
  }
  if (mode->is_single && options.requests == 0) return usage("--requests is missing", "");
  if (mode->is_single) options.connections = 1;
  // Without connections that stream, the hose measures the quiet ones by themselves.
  if (options.connections == 0 && mode->run != run_hose) return usage("--connections or --sockets is missing", "");
  if (mode->is_timed && options.seconds == 0) return usage("--seconds or --requests is missing", "");
  if (!mode->is_timed && options.pid == 0) return usage("--pid is missing", "");

  if (!allow_descriptors(options.connections + options.quiet + DESCRIPTORS_BESIDE_CONNECTIONS)) {
    fprintf(stderr, "load: more connections than the limit of open files allows (ulimit -Hn)\n");
    return 1;
  }
  return mode->run(&options);
}
