#ifndef OPTIONS_H
#define OPTIONS_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "network.h"

// Exit statuses. Wrong bytes have one of their own, for nothing excuses them, and so has a measured time in which nothing came
// back, though all was well before and after it: where others compute, a machine can stand still that long.
enum { FAILED = 1, MISTAKE = 2, WRONG_BYTES = 3, STOOD_STILL = 4 };

struct options {
  struct target target;
  unsigned connections;  // or sockets
  unsigned in_flight;    // requests of each
  unsigned quiet;        // connections beside those
  unsigned size;         // bytes in a request
  unsigned requests;     // in all; 0: as many as the time allows
  double warmup;   // seconds that are not measured
  double seconds;  // seconds that are
  double hold;     // seconds between the last connection and the reading of the server's memory
  pid_t pid;       // the server's, or 0
  bool encrypted;  // TLS
  bool resumes;    // TLS handshakes are those of sessions that there were before
  bool uploads;    // bulk goes to the server, and otherwise from it
  double rate;     // of bulk, in megabytes a second; of quiet connections together, in requests a second; 0: the mode's own
};

// Whether another request may begin after that many.
static inline bool wants_another(const struct options *options, uint64_t begun) {
  return options->requests == 0 || begun < options->requests;
}

// Each prints one line of JSON and returns the exit status.
int run_echo(const struct options *options);
int run_churn(const struct options *options);
int run_hose(const struct options *options);
int run_fanout(const struct options *options);
int run_jobs(const struct options *options);
int run_idle(const struct options *options);
int run_udp(const struct options *options);
int run_udp_stream(const struct options *options);
int run_lines(const struct options *options);
int run_messages(const struct options *options);
int run_tls_handshakes(const struct options *options);
int run_bulk(const struct options *options);

#endif
