// For pipe2 and DT_DIR
#define _GNU_SOURCE

#include "CVirtualTime.h"
#include "Uninstrumented.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

/// Closes the sockets, pipes and epolls of the parent, whose peers would otherwise wait for the child. `kept` stays open, and `errors`
/// becomes standard error. Standard output leads nowhere
static void close_inherited(int kept, int errors) {
  dup2(errors, STDERR_FILENO);
  DIR *descriptors = opendir("/proc/self/fd");
  if (!descriptors) return;
  for (struct dirent *entry; (entry = readdir(descriptors));) {
    int descriptor = atoi(entry->d_name);
    struct stat status;
    if (descriptor <= STDERR_FILENO || descriptor == kept || descriptor == dirfd(descriptors)) continue;
    if (fstat(descriptor, &status)) continue;
    // An epoll, eventfd or timerfd has no type
    mode_t type = status.st_mode & S_IFMT;
    if (type == S_IFSOCK || type == S_IFIFO || type == 0) close(descriptor);
  }
  closedir(descriptors);
  int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
  if (nowhere < 0) return;
  dup2(nowhere, STDOUT_FILENO);
}

/// Lets the blocks that the child allocates have another order in memory than those of the parent
static void shuffle_heap(void) {
  enum { COUNT = 4096 };
  static void *blocks[COUNT];
  unsigned char choices[COUNT];
  if (getentropy(choices, 256)) return;
  for (int index = 0; index < COUNT; index += 1) {
    if (index >= 256) choices[index] = choices[index - 256] * 5 + 1;
    blocks[index] = malloc(16 + 16 * (choices[index] & 31));
  }
  for (int index = 0; index < COUNT; index += 1) {
    if (choices[index] & 64) free(blocks[index]);
  }
}

/// The child ends with its parent, by the signals that end programs, and after these seconds. A trap ends it without the backtrace that
/// Swift's runtime would print
static void limit_life(unsigned seconds) {
  static const int ends[] = {SIGALRM, SIGINT, SIGTERM, SIGHUP, SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGTRAP};
  sigset_t signals;
  sigemptyset(&signals);
  for (unsigned index = 0; index < sizeof ends / sizeof *ends; index += 1) {
    signal(ends[index], SIG_DFL);
    sigaddset(&signals, ends[index]);
  }
  pthread_sigmask(SIG_UNBLOCK, &signals, NULL);
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  alarm(seconds);
}

static bool write_all(int descriptor, const char *bytes, size_t count) {
  while (count > 0) {
    ssize_t written = write(descriptor, bytes, count);
    if (written < 0 && errno == EINTR) continue;
    if (written <= 0) return false;
    bytes += written;
    count -= (size_t)written;
  }
  return true;
}

void cvirtualtime_send(const cvirtualtime_child *child, const void *bytes, size_t count) {
  if (!write_all(child->descriptor, bytes, count)) _exit(1);
}

void cvirtualtime_limit(unsigned seconds) { alarm(seconds); }

bool cvirtualtime_copies_start_threads(void) {
#if __has_feature(thread_sanitizer)
  return false;
#else
  return true;
#endif
}

void cvirtualtime_exit(void) { _exit(0); }

int cvirtualtime_fork(cvirtualtime_child *child, unsigned seconds) {
  int ends[2], errors[2];
  if (pipe2(ends, O_CLOEXEC)) return -errno;
  bool is_ready = !pipe2(errors, O_CLOEXEC);
  pid_t process = is_ready ? fork() : -1;
  if (process < 0) {
    int error = errno;
    close(ends[0]);
    close(ends[1]);
    if (is_ready) close(errors[0]), close(errors[1]);
    return -error;
  }
  child->process = process;
  child->descriptor = ends[process == 0];
  child->errors = errors[process == 0];
  close(ends[process != 0]);
  close(errors[process != 0]);
  if (process > 0) return 1;
  limit_life(seconds);
  close_inherited(child->descriptor, child->errors);
  shuffle_heap();
  return 0;
}

size_t cvirtualtime_receive(cvirtualtime_child *child, void *bytes, size_t room, bool *is_error) {
  int *descriptors[] = {&child->descriptor, &child->errors};
  // A negative descriptor is ignored
  while (child->descriptor >= 0 || child->errors >= 0) {
    struct pollfd polls[] = {{child->descriptor, POLLIN, 0}, {child->errors, POLLIN, 0}};
    // A program that the child has started may keep its standard error
    int ready = poll(polls, 2, child->descriptor < 0 ? 0 : -1);
    if (ready < 0 && errno != EINTR) abort();
    if (ready == 0) {
      close(child->errors);
      child->errors = -1;
    }
    for (int index = 0; index < 2; index += 1) {
      if (polls[index].fd < 0 || !polls[index].revents) continue;
      ssize_t received = read(polls[index].fd, bytes, room);
      if (received < 0 && errno == EINTR) continue;
      *is_error = index == 1;
      if (received > 0) return (size_t)received;
      close(polls[index].fd);
      *descriptors[index] = -1;
    }
  }
  return 0;
}

void cvirtualtime_kill(const cvirtualtime_child *child) { kill(child->process, SIGKILL); }

int cvirtualtime_wait_for_end(const cvirtualtime_child *child) {
  int status;
  while (waitpid(child->process, &status, 0) < 0) {
    if (errno != EINTR) return -1;
  }
  return status;
}

#pragma clang attribute pop
