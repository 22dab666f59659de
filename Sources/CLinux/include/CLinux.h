// Functions of Linux and of the C library that Swift's Glibc module lacks, or that are easier to call through C: epoll,
// eventfd, accept4 and others.
//
// Swift imports this header next to Glibc's own module. So the header includes no system header and never defines _GNU_SOURCE,
// because either would declare types such as `fd_set` a second time. Code that needs them is in CLinux.c. Unless stated
// otherwise, a function returns what its system call returns, with -errno instead of -1, so that no caller reads `errno`.

#ifndef CLINUX_H
#define CLINUX_H

#include <stdbool.h>
#include <stdint.h>

#include "CLinuxDatagrams.h"
#include "CLinuxSignals.h"

/// One event: the event mask, and the token that the descriptor was registered with
typedef struct {
  uint64_t token;
  uint32_t events;
} clinux_event;

enum {
  CLINUX_EPOLLIN = 0x001,
  CLINUX_EPOLLPRI = 0x002,
  CLINUX_EPOLLOUT = 0x004,
  CLINUX_EPOLLERR = 0x008,
  CLINUX_EPOLLHUP = 0x010,
  CLINUX_EPOLLRDHUP = 0x2000,
};

/// epoll_create1(EPOLL_CLOEXEC)
int clinux_epoll_create(void);
/// epoll_ctl(EPOLL_CTL_ADD), edge-triggered
int clinux_epoll_add(int epoll, int fd, uint32_t events, uint64_t token);
/// epoll_ctl(EPOLL_CTL_MOD), edge-triggered
int clinux_epoll_change(int epoll, int fd, uint32_t events, uint64_t token);
/// epoll_ctl(EPOLL_CTL_DEL)
int clinux_epoll_remove(int epoll, int fd);
/// epoll_wait(2), or epoll_pwait2(2) for less than a millisecond; returns at most 256 events per call, even if `capacity` is larger. -1
/// nanoseconds wait without limit
int clinux_epoll_wait(int epoll, clinux_event *_Nonnull events, int capacity, int64_t timeout_nanoseconds);

/// eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)
int clinux_eventfd_create(void);
/// Adds 1 to the counter
int clinux_eventfd_signal(int fd);

/// accept4(SOCK_CLOEXEC | SOCK_NONBLOCK); `address` is a struct sockaddr_storage; `length` is its size, and then the size of
/// the address
int clinux_accept(int fd, void *_Nonnull address, uint32_t *_Nonnull length);

/// socket(AF_NETLINK), which gets a message when an interface or an address of one changes: rtnetlink(7)
int clinux_interface_socket(void);

/// open(O_PATH | O_NOFOLLOW | O_CLOEXEC): refers to the file, of any kind, without opening it
int clinux_open_path(const char *_Nonnull path);

/// recv(2) without flags
long clinux_recv(int fd, void *_Nullable buffer, unsigned long count);
/// recv(2) with MSG_PEEK: the bytes stay
long clinux_peek(int fd, void *_Nullable buffer, unsigned long count);
/// send(2) with MSG_NOSIGNAL
long clinux_send(int fd, const void *_Nullable bytes, unsigned long count);

/// The state of a TCP connection: tcp(7), TCP_INFO. Times are in microseconds. Of the 64-bit fields, those that an older kernel
/// does not report are UINT64_MAX.
typedef struct {
  uint8_t state;
  uint32_t round_trip, round_trip_variation;
  uint32_t congestion_window, slow_start_threshold, segment_size, path_mtu;
  uint32_t unacknowledged, lost, retransmitted_now, retransmitted;
  uint64_t bytes_acknowledged, bytes_received, unsent_bytes, minimum_round_trip, delivery_rate;
} clinux_tcp_info;

/// getsockopt(2) with TCP_INFO
int clinux_get_tcp_info(int fd, clinux_tcp_info *_Nonnull info);

/// The largest number of descriptors that the kernel allows in one message: SCM_MAX_FD
enum { CLINUX_MAXIMUM_DESCRIPTORS = 253 };

/// sendmsg(2) with MSG_NOSIGNAL and SCM_RIGHTS; the descriptor is passed with the first byte
long clinux_send_descriptor(int fd, const void *_Nonnull bytes, unsigned long count, int descriptor);
/// recvmsg(2) with MSG_CMSG_CLOEXEC. `descriptors` has room for CLINUX_MAXIMUM_DESCRIPTORS; `received` is set to the number
/// that arrived. `truncated` is set to 1 if the kernel dropped some because the process had no room for them.
long clinux_receive_descriptors(int fd, void *_Nullable buffer, unsigned long count, int *_Nonnull descriptors,
                                int *_Nonnull received, int *_Nonnull truncated);

/// sendfile(2) starting at `offset`; does not change the file's own position
long clinux_sendfile(int fd, int file, long offset, unsigned long count);
/// pread(2)
long clinux_pread(int file, void *_Nullable buffer, unsigned long count, long offset);
/// pwritev2(2) with RWF_APPEND: writes at the end of the file
long clinux_append(int file, const void *_Nullable bytes, unsigned long count);

/// memmem(3)
const uint8_t *_Nullable clinux_memmem(const uint8_t *_Nonnull bytes, unsigned long count, const uint8_t *_Nonnull pattern,
                                       unsigned long pattern_count);
/// strerrordesc_np(3): static text, or NULL for an unknown errno
const char *_Nullable clinux_error_text(int error);
/// pthread_setname_np(3) for the calling thread
void clinux_name_thread(const char *_Nonnull name);

/// The number of processors that the calling thread may use, sched_getaffinity(2); 1 if it is not known
int clinux_usable_processors(void);

/// The Swift task that runs on the calling thread; NULL if no task does
void *_Nullable clinux_current_task(void);
/// Whether that task is cancelled; false without a task
bool clinux_current_task_is_cancelled(void);

/// The slots of each thread. Swift cannot read them itself; the functions are inlined into what calls them
extern _Thread_local void *_Nullable clinux_thread_objects[3];

/// The object in slot 0, 1 or 2 of the calling thread; NULL at first
static inline void *_Nullable clinux_thread_object(int slot) { return clinux_thread_objects[slot]; }
/// Stores an object in slot 0, 1 or 2 of the calling thread, or NULL to clear the slot
static inline void clinux_set_thread_object(int slot, void *_Nullable object) { clinux_thread_objects[slot] = object; }

#endif
