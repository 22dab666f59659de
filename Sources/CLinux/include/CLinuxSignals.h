// Signals that the program takes over: sigaction(2). The handler only counts, because a signal handler may do next to nothing:
// signal-safety(7).

#ifndef CLINUX_SIGNALS_H
#define CLINUX_SIGNALS_H

#include <stdint.h>

/// Sets the eventfd that the handler writes to. It must not be closed while a signal is taken over, nor right afterwards: a handler
/// that still runs on another thread would write to a new descriptor with the same number.
void clinux_signals_set_event(int fd);

/// Replaces the handling of a signal by the counting handler, and keeps the previous handling for `clinux_signal_restore`.
int clinux_signal_take(int signal);

/// Restores the handling that the signal had before `clinux_signal_take`, unless other code has replaced it since.
int clinux_signal_restore(int signal);

/// If a signal has the default handling, and that ends processes, the signal ends this process with the status 128 + signal from now
/// on. For the first process of a PID namespace: the kernel ignores signals with the default handling there, pid_namespaces(7).
int clinux_signal_make_fatal(int signal);

/// The number of times that the signal has arrived while it was taken over, since the program started
uint64_t clinux_signal_count(int signal);

#endif
