#include "CVirtualTime.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/wait.h>
#include <unistd.h>

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

void cvirtualtime_answer(const cvirtualtime_child *child, const char *bytes, size_t count) {
  _exit(write_all(child->descriptor, bytes, count) ? 0 : 1);
}

int cvirtualtime_fork(cvirtualtime_child *child, unsigned seconds) {
  int ends[2];
  if (pipe(ends)) return -errno;
  pid_t process = fork();
  if (process < 0) {
    int error = errno;
    close(ends[0]);
    close(ends[1]);
    return -error;
  }
  child->process = process;
  child->descriptor = ends[process == 0];
  close(ends[process != 0]);
  if (process > 0) return 1;
  shuffle_heap();
  sigset_t alarms;
  sigemptyset(&alarms);
  sigaddset(&alarms, SIGALRM);
  signal(SIGALRM, SIG_DFL);
  pthread_sigmask(SIG_UNBLOCK, &alarms, NULL);
  alarm(seconds);
  return 0;
}

char *cvirtualtime_wait_for_child(cvirtualtime_child *child, size_t *count, int *status) {
  size_t room = 4096;
  char *bytes = malloc(room);
  *count = 0;
  while (bytes) {
    ssize_t received = read(child->descriptor, bytes + *count, room - *count);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) break;
    *count += (size_t)received;
    if (*count == room) {
      room *= 2;
      char *more = realloc(bytes, room);
      if (!more) free(bytes);
      bytes = more;
    }
  }
  close(child->descriptor);
  while (waitpid(child->process, status, 0) < 0 && errno == EINTR) {}
  if (!bytes) abort();
  return bytes;
}

void cvirtualtime_free_answer(char *answer) { free(answer); }
