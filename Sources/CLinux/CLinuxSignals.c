#define _GNU_SOURCE
#include "CLinuxSignals.h"

#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

/// The standard signals; those from 32 on are real-time signals.
enum { SIGNALS = 32 };

static _Atomic uint64_t counts[SIGNALS];
static struct sigaction previous[SIGNALS];
static _Atomic int event = -1;

static int result(int value) { return value < 0 ? -errno : value; }

/// Runs on any thread, between any two instructions of it.
static void count(int signal) {
  int saved = errno;
  atomic_fetch_add(&counts[signal], 1);
  uint64_t one = 1;
  // It fails only if the counter is full, after 2^64 signals.
  ssize_t written = write(atomic_load(&event), &one, sizeof one);
  (void)written;
  errno = saved;
}

void clinux_signals_set_event(int fd) { atomic_store(&event, fd); }

int clinux_signal_take(int signal) {
  if (signal <= 0 || signal >= SIGNALS) return -EINVAL;
  // SA_RESTART: calls that the signal interrupts on the program's own threads go on. SA_ONSTACK: a thread with little stack may
  // have prepared another one, sigaltstack(2).
  struct sigaction action = {.sa_handler = count, .sa_flags = SA_RESTART | SA_ONSTACK};
  sigemptyset(&action.sa_mask);
  return result(sigaction(signal, &action, &previous[signal]));
}

/// Runs on any thread. It does what the default handling does to a process that is not the first one.
static void end_process(int signal) { _exit(128 + signal); }

/// Whether the default handling of a signal ends a process: signal(7).
static int is_fatal(int signal) {
  switch (signal) {
  case SIGCHLD:
  case SIGCONT:
  case SIGSTOP:
  case SIGTSTP:
  case SIGTTIN:
  case SIGTTOU:
  case SIGURG:
  case SIGWINCH:
    return 0;
  default:
    return 1;
  }
}

int clinux_signal_make_fatal(int signal) {
  if (signal <= 0 || signal >= SIGNALS) return -EINVAL;
  struct sigaction now;
  if (sigaction(signal, NULL, &now) < 0) return -errno;
  if ((now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != SIG_DFL || !is_fatal(signal)) return 0;
  struct sigaction action = {.sa_handler = end_process, .sa_flags = SA_ONSTACK};
  sigemptyset(&action.sa_mask);
  return result(sigaction(signal, &action, NULL));
}

int clinux_signal_restore(int signal) {
  if (signal <= 0 || signal >= SIGNALS) return -EINVAL;
  struct sigaction now;
  if (sigaction(signal, NULL, &now) < 0) return -errno;
  if ((now.sa_flags & SA_SIGINFO) != 0 || now.sa_handler != count) return 0;
  return result(sigaction(signal, &previous[signal], NULL));
}

uint64_t clinux_signal_count(int signal) {
  return signal > 0 && signal < SIGNALS ? atomic_load(&counts[signal]) : 0;
}
