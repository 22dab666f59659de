#define _GNU_SOURCE
#include "CLinux.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <linux/tcp.h>
#include <netinet/in.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stddef.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <sys/sendfile.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

_Static_assert(sizeof(off_t) == sizeof(long), "offsets beyond 2 GiB");

_Static_assert(CLINUX_EPOLLIN == EPOLLIN && CLINUX_EPOLLPRI == EPOLLPRI && CLINUX_EPOLLOUT == EPOLLOUT, "epoll bits");
_Static_assert(CLINUX_EPOLLERR == EPOLLERR && CLINUX_EPOLLHUP == EPOLLHUP && CLINUX_EPOLLRDHUP == EPOLLRDHUP, "epoll bits");

static int result(int value) { return value < 0 ? -errno : value; }

int clinux_epoll_create(void) { return result(epoll_create1(EPOLL_CLOEXEC)); }

int clinux_epoll_add(int epoll, int fd, uint32_t events, uint64_t token) {
  struct epoll_event event = {.events = events | EPOLLET, .data = {.u64 = token}};
  return result(epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event));
}

int clinux_epoll_change(int epoll, int fd, uint32_t events, uint64_t token) {
  struct epoll_event event = {.events = events | EPOLLET, .data = {.u64 = token}};
  return result(epoll_ctl(epoll, EPOLL_CTL_MOD, fd, &event));
}

int clinux_epoll_remove(int epoll, int fd) { return result(epoll_ctl(epoll, EPOLL_CTL_DEL, fd, NULL)); }

enum { NANOSECONDS_PER_MILLISECOND = 1000000 };

static int wait_for_events(int epoll, struct epoll_event *events, int capacity, int64_t nanoseconds) {
  // Whether the system call is missing, or a sandbox forbids it.
  static atomic_bool lacks_pwait2;
  if (nanoseconds > 0 && nanoseconds < NANOSECONDS_PER_MILLISECOND &&
      !atomic_load_explicit(&lacks_pwait2, memory_order_relaxed)) {
    struct timespec timeout = {.tv_nsec = nanoseconds};
    long count = syscall(SYS_epoll_pwait2, epoll, events, capacity, &timeout, NULL, 0);
    if (count >= 0 || (errno != ENOSYS && errno != EPERM)) return (int)count;
    atomic_store_explicit(&lacks_pwait2, 1, memory_order_relaxed);
  }
  int64_t milliseconds = nanoseconds < 0 ? -1 : (nanoseconds + NANOSECONDS_PER_MILLISECOND - 1) / NANOSECONDS_PER_MILLISECOND;
  return epoll_wait(epoll, events, capacity, (int)milliseconds);
}

int clinux_epoll_wait(int epoll, clinux_event *events, int capacity, int64_t timeout_nanoseconds) {
  // struct epoll_event is packed on x86-64 and contains a union, so Swift cannot import it correctly.
  struct epoll_event buffer[256];
  if (capacity > 256) capacity = 256;
  int count = wait_for_events(epoll, buffer, capacity, timeout_nanoseconds);
  if (count < 0) return -errno;
  for (int i = 0; i < count; i++) events[i] = (clinux_event){.token = buffer[i].data.u64, .events = buffer[i].events};
  return count;
}

int clinux_eventfd_create(void) { return result(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)); }

int clinux_eventfd_signal(int fd) {
  uint64_t one = 1;
  return write(fd, &one, sizeof one) < 0 ? -errno : 0;
}

int clinux_accept(int fd, void *address, uint32_t *length) {
  return result(accept4(fd, address, length, SOCK_CLOEXEC | SOCK_NONBLOCK));
}

int clinux_interface_socket(void) {
  int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_NONBLOCK | SOCK_CLOEXEC, NETLINK_ROUTE);
  if (fd < 0) return -errno;
  struct sockaddr_nl groups = {
      .nl_family = AF_NETLINK, .nl_groups = RTMGRP_LINK | RTMGRP_IPV4_IFADDR | RTMGRP_IPV6_IFADDR};
  if (bind(fd, (struct sockaddr *)&groups, sizeof groups) == 0) return fd;
  int error = errno;
  close(fd);
  return -error;
}

int clinux_open_path(const char *path) { return result(open(path, O_PATH | O_NOFOLLOW | O_CLOEXEC)); }

// System calls instead of recv(3) and send(3), because those are thread cancellation points. Thread cancellation is not used
// here, and in a process with several threads it costs two atomic operations per call.
long clinux_recv(int fd, void *buffer, unsigned long count) {
  long received = syscall(SYS_recvfrom, fd, buffer, count, 0, NULL, NULL);
  return received < 0 ? -errno : received;
}

long clinux_peek(int fd, void *buffer, unsigned long count) {
  long received = syscall(SYS_recvfrom, fd, buffer, count, MSG_PEEK, NULL, NULL);
  return received < 0 ? -errno : received;
}

long clinux_send(int fd, const void *bytes, unsigned long count) {
  long sent = syscall(SYS_sendto, fd, bytes, count, MSG_NOSIGNAL, NULL, 0);
  return sent < 0 ? -errno : sent;
}

int clinux_get_tcp_info(int fd, clinux_tcp_info *info) {
  // The kernel fills in the fields that it knows. All fields up to tcpi_total_retrans exist since Linux 2.6.
  struct tcp_info known;
  memset(&known, 0, sizeof known);
  socklen_t length = sizeof known;
  if (getsockopt(fd, IPPROTO_TCP, TCP_INFO, &known, &length) < 0) return -errno;
#define HAS(field) (length >= offsetof(struct tcp_info, field) + sizeof known.field)
#define VALUE(field) (HAS(field) ? (uint64_t)known.field : UINT64_MAX)
  *info = (clinux_tcp_info){
      .state = known.tcpi_state,
      .round_trip = known.tcpi_rtt,
      .round_trip_variation = known.tcpi_rttvar,
      .congestion_window = known.tcpi_snd_cwnd,
      .slow_start_threshold = known.tcpi_snd_ssthresh,
      .segment_size = known.tcpi_snd_mss,
      .path_mtu = known.tcpi_pmtu,
      .unacknowledged = known.tcpi_unacked,
      .lost = known.tcpi_lost,
      .retransmitted_now = known.tcpi_retrans,
      .retransmitted = known.tcpi_total_retrans,
      .bytes_acknowledged = VALUE(tcpi_bytes_acked),
      .bytes_received = VALUE(tcpi_bytes_received),
      .unsent_bytes = VALUE(tcpi_notsent_bytes),
      .minimum_round_trip = VALUE(tcpi_min_rtt),
      .delivery_rate = VALUE(tcpi_delivery_rate),
  };
#undef VALUE
#undef HAS
  return 0;
}

long clinux_send_descriptor(int fd, const void *bytes, unsigned long count, int descriptor) {
  union {
    struct cmsghdr header;
    char space[CMSG_SPACE(sizeof(int))];
  } control = {0};
  struct iovec piece = {.iov_base = (void *)bytes, .iov_len = count};
  struct msghdr message = {
      .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
  struct cmsghdr *header = CMSG_FIRSTHDR(&message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof(int));
  memcpy(CMSG_DATA(header), &descriptor, sizeof(int));
  long sent = sendmsg(fd, &message, MSG_NOSIGNAL);
  return sent < 0 ? -errno : sent;
}

long clinux_receive_descriptors(int fd, void *buffer, unsigned long count, int *descriptors, int *received, int *truncated) {
  // Also room for credentials and similar messages, which other code may have enabled on this descriptor.
  union {
    struct cmsghdr header;
    char space[CMSG_SPACE(CLINUX_MAXIMUM_DESCRIPTORS * sizeof(int)) + 512];
  } control;
  struct iovec piece = {.iov_base = buffer, .iov_len = count};
  struct msghdr message = {
      .msg_iov = &piece, .msg_iovlen = 1, .msg_control = control.space, .msg_controllen = sizeof control.space};
  *received = 0;
  *truncated = 0;
  long bytes = recvmsg(fd, &message, MSG_CMSG_CLOEXEC);
  if (bytes < 0) return -errno;
  *truncated = (message.msg_flags & MSG_CTRUNC) != 0;
  for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    int more = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    // A message cannot carry more descriptors than there is room for.
    memcpy(descriptors + *received, CMSG_DATA(header), more * sizeof(int));
    *received += more;
  }
  return bytes;
}

long clinux_sendfile(int fd, int file, long offset, unsigned long count) {
  off_t position = offset;
  long sent = sendfile(fd, file, &position, count);
  return sent < 0 ? -errno : sent;
}

long clinux_pread(int file, void *buffer, unsigned long count, long offset) {
  long bytes = pread(file, buffer, count, offset);
  return bytes < 0 ? -errno : bytes;
}

long clinux_append(int file, const void *bytes, unsigned long count) {
  struct iovec piece = {.iov_base = (void *)bytes, .iov_len = count};
  long written = pwritev2(file, &piece, 1, 0, RWF_APPEND);
  return written < 0 ? -errno : written;
}

const uint8_t *clinux_memmem(const uint8_t *bytes, unsigned long count, const uint8_t *pattern, unsigned long pattern_count) {
  return memmem(bytes, count, pattern, pattern_count);
}

const char *clinux_error_text(int error) { return strerrordesc_np(error); }

void clinux_name_thread(const char *name) { pthread_setname_np(pthread_self(), name); }

int clinux_usable_processors(void) {
  cpu_set_t set;
  return sched_getaffinity(0, sizeof set, &set) < 0 ? 1 : CPU_COUNT(&set);
}

// Functions of Swift's runtime: see CurrentTask.swift.
extern __attribute__((swiftcall)) void *swift_task_getCurrent(void);
extern __attribute__((swiftcall)) bool swift_task_isCancelled(void *task);

void *clinux_current_task(void) { return swift_task_getCurrent(); }

bool clinux_current_task_is_cancelled(void) {
  void *task = swift_task_getCurrent();
  return task && swift_task_isCancelled(task);
}

_Thread_local void *clinux_thread_objects[3];
