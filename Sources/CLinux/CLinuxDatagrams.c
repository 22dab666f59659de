#define _GNU_SOURCE
#include "CLinux.h"

#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

// This header needs struct timespec.
#include <linux/errqueue.h>

// METADATA_SIZE is room for all metadata that can be requested: two kinds of packet information (an IPv4 datagram on an IPv6
// socket has both), the traffic class, the hop limit, the timestamp, the credentials, the size of segments. CONTROL_SIZE adds room for
// descriptors.
enum { METADATA_SIZE = 224, CONTROL_SIZE = METADATA_SIZE + CMSG_SPACE(CLINUX_MAXIMUM_DESCRIPTORS * sizeof(int)) };

_Static_assert(METADATA_SIZE >= CMSG_SPACE(sizeof(struct in_pktinfo)) + CMSG_SPACE(sizeof(struct in6_pktinfo)) +
                                    3 * CMSG_SPACE(sizeof(int)) + CMSG_SPACE(sizeof(struct timespec)) +
                                    CMSG_SPACE(sizeof(struct ucred)),
               "room for all metadata");

struct clinux_batch {
  struct mmsghdr headers[CLINUX_BATCH_CAPACITY];
  struct iovec pieces[CLINUX_BATCH_CAPACITY];
  struct sockaddr_storage addresses[CLINUX_BATCH_CAPACITY];
  // Aligned like struct cmsghdr.
  uint64_t control[CLINUX_BATCH_CAPACITY][CONTROL_SIZE / sizeof(uint64_t)];
  int count;
};

clinux_batch *clinux_batch_create(void) { return calloc(1, sizeof(clinux_batch)); }

void clinux_batch_destroy(clinux_batch *batch) { free(batch); }

// MARK: Receiving

int clinux_batch_receive(clinux_batch *batch, int fd, uint8_t *memory, unsigned long size, int count,
                         int with_metadata, int descriptors) {
  if (count > CLINUX_BATCH_CAPACITY) count = CLINUX_BATCH_CAPACITY;
  if (descriptors > CLINUX_MAXIMUM_DESCRIPTORS) descriptors = CLINUX_MAXIMUM_DESCRIPTORS;
  unsigned long room = (with_metadata ? METADATA_SIZE : 0) + (descriptors > 0 ? CMSG_SPACE(descriptors * sizeof(int)) : 0);
  for (int i = 0; i < count; i++) {
    batch->pieces[i] = (struct iovec){.iov_base = memory + (unsigned long)i * size, .iov_len = size};
    batch->headers[i].msg_hdr = (struct msghdr){
        .msg_name = &batch->addresses[i],
        .msg_namelen = sizeof batch->addresses[i],
        .msg_iov = &batch->pieces[i],
        .msg_iovlen = 1,
        .msg_control = room > 0 ? batch->control[i] : NULL,
        .msg_controllen = room,
    };
  }
  // A system call, for the same reason as in CLinux.c.
  long received = syscall(SYS_recvmmsg, fd, batch->headers, count, MSG_DONTWAIT | MSG_CMSG_CLOEXEC, NULL);
  return received < 0 ? -errno : (int)received;
}

unsigned long clinux_batch_length(const clinux_batch *batch, int index) { return batch->headers[index].msg_len; }

int clinux_batch_is_truncated(const clinux_batch *batch, int index) {
  return (batch->headers[index].msg_hdr.msg_flags & MSG_TRUNC) != 0;
}

const int *clinux_batch_passed(const clinux_batch *batch, int index, int *count) {
  struct msghdr *message = (struct msghdr *)&batch->headers[index].msg_hdr;
  for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    *count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    return (const int *)CMSG_DATA(header);
  }
  *count = 0;
  return NULL;
}

int clinux_batch_is_control_truncated(const clinux_batch *batch, int index) {
  return (batch->headers[index].msg_hdr.msg_flags & MSG_CTRUNC) != 0;
}

unsigned long clinux_batch_segment_size(const clinux_batch *batch, int index) {
  struct msghdr *message = (struct msghdr *)&batch->headers[index].msg_hdr;
  for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_UDP || header->cmsg_type != UDP_GRO || header->cmsg_len < CMSG_LEN(sizeof(int))) continue;
    int size;
    memcpy(&size, CMSG_DATA(header), sizeof size);
    return size > 0 ? (unsigned long)size : 0;
  }
  return 0;
}

const void *clinux_batch_address(const clinux_batch *batch, int index, uint32_t *length) {
  *length = batch->headers[index].msg_hdr.msg_namelen;
  return &batch->addresses[index];
}

static void take_integer(const struct cmsghdr *header, uint8_t *value) {
  // One byte or four, depending on the option.
  if (header->cmsg_len >= CMSG_LEN(sizeof(int))) {
    int number;
    memcpy(&number, CMSG_DATA(header), sizeof number);
    *value = (uint8_t)number;
  } else {
    *value = *CMSG_DATA(header);
  }
}

static void take_ipv4(const struct cmsghdr *header, clinux_metadata *metadata) {
  if (header->cmsg_type == IP_PKTINFO) {
    struct in_pktinfo info;
    memcpy(&info, CMSG_DATA(header), sizeof info);
    metadata->present |= CLINUX_HAS_LOCAL;
    metadata->is_ipv6 = 0;
    metadata->interface = (uint32_t)info.ipi_ifindex;
    memcpy(metadata->local, &info.ipi_addr, sizeof info.ipi_addr);
    memcpy(metadata->answer, &info.ipi_spec_dst, sizeof info.ipi_spec_dst);
  } else if (header->cmsg_type == IP_TOS) {
    metadata->present |= CLINUX_HAS_TRAFFIC_CLASS;
    take_integer(header, &metadata->traffic_class);
  } else if (header->cmsg_type == IP_TTL) {
    metadata->present |= CLINUX_HAS_HOP_LIMIT;
    take_integer(header, &metadata->hop_limit);
  }
}

static void take_ipv6(const struct cmsghdr *header, clinux_metadata *metadata) {
  if (header->cmsg_type == IPV6_PKTINFO) {
    struct in6_pktinfo info;
    memcpy(&info, CMSG_DATA(header), sizeof info);
    // An IPv4 datagram also has an IP_PKTINFO message, which contains more.
    if (IN6_IS_ADDR_V4MAPPED(&info.ipi6_addr)) return;
    metadata->present |= CLINUX_HAS_LOCAL;
    metadata->is_ipv6 = 1;
    metadata->interface = info.ipi6_ifindex;
    memcpy(metadata->local, &info.ipi6_addr, sizeof info.ipi6_addr);
    memcpy(metadata->answer, &info.ipi6_addr, sizeof info.ipi6_addr);
    if (IN6_IS_ADDR_MULTICAST(&info.ipi6_addr)) memset(metadata->answer, 0, sizeof metadata->answer);
  } else if (header->cmsg_type == IPV6_TCLASS) {
    metadata->present |= CLINUX_HAS_TRAFFIC_CLASS;
    take_integer(header, &metadata->traffic_class);
  } else if (header->cmsg_type == IPV6_HOPLIMIT) {
    metadata->present |= CLINUX_HAS_HOP_LIMIT;
    take_integer(header, &metadata->hop_limit);
  }
}

void clinux_batch_metadata(const clinux_batch *batch, int index, clinux_metadata *metadata) {
  struct msghdr *message = (struct msghdr *)&batch->headers[index].msg_hdr;
  memset(metadata, 0, sizeof *metadata);
  for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level == IPPROTO_IP) take_ipv4(header, metadata);
    if (header->cmsg_level == IPPROTO_IPV6) take_ipv6(header, metadata);
    if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_TIMESTAMPNS) {
      struct timespec time;
      memcpy(&time, CMSG_DATA(header), sizeof time);
      metadata->present |= CLINUX_HAS_TIMESTAMP;
      metadata->seconds = time.tv_sec;
      metadata->nanoseconds = time.tv_nsec;
    }
    if (header->cmsg_level == SOL_SOCKET && header->cmsg_type == SCM_CREDENTIALS) {
      struct ucred credentials;
      memcpy(&credentials, CMSG_DATA(header), sizeof credentials);
      metadata->present |= CLINUX_HAS_CREDENTIALS;
      metadata->process = credentials.pid;
      metadata->user = credentials.uid;
      metadata->group = credentials.gid;
    }
  }
}

int clinux_batch_take_descriptors(clinux_batch *batch, int index, int *descriptors, int most) {
  struct msghdr *message = &batch->headers[index].msg_hdr;
  int came = 0;
  for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_SOCKET || header->cmsg_type != SCM_RIGHTS) continue;
    unsigned long count = (header->cmsg_len - CMSG_LEN(0)) / sizeof(int);
    for (unsigned long i = 0; i < count; i++) {
      int descriptor;
      memcpy(&descriptor, CMSG_DATA(header) + i * sizeof(int), sizeof descriptor);
      // Descriptors that the caller does not want must not stay open.
      if (came < most) descriptors[came] = descriptor;
      else close(descriptor);
      came++;
    }
    // The descriptors now have an owner or are closed, so hide them from later calls.
    header->cmsg_level = -1;
  }
  return came;
}

// MARK: Sending

void clinux_batch_clear(clinux_batch *batch) { batch->count = 0; }

static struct cmsghdr *put(struct msghdr *message, struct cmsghdr *header, int level, int type, const void *value,
                           unsigned long size) {
  header->cmsg_level = level;
  header->cmsg_type = type;
  header->cmsg_len = CMSG_LEN(size);
  memcpy(CMSG_DATA(header), value, size);
  message->msg_controllen += CMSG_SPACE(size);
  return (struct cmsghdr *)((uint8_t *)header + CMSG_SPACE(size));
}

static struct cmsghdr *put_metadata(struct msghdr *message, struct cmsghdr *header, const clinux_metadata *metadata) {
  int level = metadata->is_ipv6 ? IPPROTO_IPV6 : IPPROTO_IP;
  if (metadata->present & CLINUX_HAS_LOCAL) {
    if (metadata->is_ipv6) {
      struct in6_pktinfo info = {.ipi6_ifindex = metadata->interface};
      memcpy(&info.ipi6_addr, metadata->local, sizeof info.ipi6_addr);
      header = put(message, header, level, IPV6_PKTINFO, &info, sizeof info);
    } else {
      struct in_pktinfo info = {.ipi_ifindex = (int)metadata->interface};
      memcpy(&info.ipi_spec_dst, metadata->local, sizeof info.ipi_spec_dst);
      header = put(message, header, level, IP_PKTINFO, &info, sizeof info);
    }
  }
  if (metadata->present & CLINUX_HAS_TRAFFIC_CLASS) {
    int value = metadata->traffic_class;
    header = put(message, header, level, metadata->is_ipv6 ? IPV6_TCLASS : IP_TOS, &value, sizeof value);
  }
  if (metadata->present & CLINUX_HAS_HOP_LIMIT) {
    int value = metadata->hop_limit;
    header = put(message, header, level, metadata->is_ipv6 ? IPV6_HOPLIMIT : IP_TTL, &value, sizeof value);
  }
  return header;
}

void clinux_batch_fill(clinux_batch *batch, int index, unsigned long length, int is_truncated, const void *address,
                       uint32_t address_length, const clinux_metadata *metadata, const int *descriptors,
                       int descriptor_count, int is_control_truncated) {
  struct msghdr *message = &batch->headers[index].msg_hdr;
  struct cmsghdr *header = (struct cmsghdr *)batch->control[index];
  memset(header, 0, METADATA_SIZE);
  memcpy(&batch->addresses[index], address, address_length);
  *message = (struct msghdr){
      .msg_name = &batch->addresses[index],
      .msg_namelen = address_length,
      .msg_control = header,
      .msg_flags = (is_truncated ? MSG_TRUNC : 0) | (is_control_truncated ? MSG_CTRUNC : 0),
  };
  batch->headers[index].msg_len = length;
  header = put_metadata(message, header, metadata);
  if (metadata->present & CLINUX_HAS_LOCAL && !metadata->is_ipv6) {
    struct in_pktinfo info = {.ipi_ifindex = (int)metadata->interface};
    memcpy(&info.ipi_addr, metadata->local, sizeof info.ipi_addr);
    memcpy(&info.ipi_spec_dst, metadata->answer, sizeof info.ipi_spec_dst);
    memcpy(CMSG_DATA(CMSG_FIRSTHDR(message)), &info, sizeof info);
  }
  if (metadata->present & CLINUX_HAS_TIMESTAMP) {
    struct timespec time = {.tv_sec = metadata->seconds, .tv_nsec = metadata->nanoseconds};
    header = put(message, header, SOL_SOCKET, SCM_TIMESTAMPNS, &time, sizeof time);
  }
  if (metadata->present & CLINUX_HAS_CREDENTIALS) {
    struct ucred credentials = {.pid = metadata->process, .uid = metadata->user, .gid = metadata->group};
    header = put(message, header, SOL_SOCKET, SCM_CREDENTIALS, &credentials, sizeof credentials);
  }
  if (descriptor_count > 0) {
    put(message, header, SOL_SOCKET, SCM_RIGHTS, descriptors, (unsigned long)descriptor_count * sizeof(int));
  }
}

void clinux_batch_add(clinux_batch *batch, const uint8_t *bytes, unsigned long length, const void *address,
                      uint32_t address_length, const clinux_metadata *metadata, const int *descriptors,
                      int descriptor_count) {
  int index = batch->count++;
  struct msghdr *message = &batch->headers[index].msg_hdr;
  batch->pieces[index] = (struct iovec){.iov_base = (void *)bytes, .iov_len = length};
  *message = (struct msghdr){.msg_iov = &batch->pieces[index], .msg_iovlen = 1};
  if (address) {
    memcpy(&batch->addresses[index], address, address_length);
    message->msg_name = &batch->addresses[index];
    message->msg_namelen = address_length;
  }
  if (!metadata && descriptor_count == 0) return;
  struct cmsghdr *header = (struct cmsghdr *)batch->control[index];
  memset(header, 0, METADATA_SIZE);
  message->msg_control = header;
  if (metadata) header = put_metadata(message, header, metadata);
  if (descriptor_count > 0) {
    if (descriptor_count > CLINUX_MAXIMUM_DESCRIPTORS) descriptor_count = CLINUX_MAXIMUM_DESCRIPTORS;
    put(message, header, SOL_SOCKET, SCM_RIGHTS, descriptors, (unsigned long)descriptor_count * sizeof(int));
  }
  if (message->msg_controllen == 0) message->msg_control = NULL;
}

void clinux_batch_extend(clinux_batch *batch, unsigned long length, uint16_t segment_size) {
  int index = batch->count - 1;
  struct msghdr *message = &batch->headers[index].msg_hdr;
  if (batch->pieces[index].iov_len == segment_size) {
    // The message has one datagram so far.
    uint8_t *control = (uint8_t *)batch->control[index];
    if (!message->msg_control) memset(control, 0, METADATA_SIZE);
    message->msg_control = control;
    put(message, (struct cmsghdr *)(control + message->msg_controllen), SOL_UDP, UDP_SEGMENT, &segment_size,
        sizeof segment_size);
  }
  batch->pieces[index].iov_len += length;
}

int clinux_batch_send(clinux_batch *batch, int fd) {
  long sent = syscall(SYS_sendmmsg, fd, batch->headers, batch->count, MSG_DONTWAIT | MSG_NOSIGNAL);
  return sent < 0 ? -errno : (int)sent;
}

long clinux_sendto(int fd, const void *bytes, unsigned long count, const void *address, uint32_t address_length) {
  long sent = syscall(SYS_sendto, fd, bytes, count, MSG_NOSIGNAL, address, address_length);
  return sent < 0 ? -errno : sent;
}

// MARK: Errors

int clinux_receive_error(int fd, clinux_socket_error *error) {
  union {
    struct cmsghdr header;
    char space[512];
  } control;
  char byte;
  struct iovec piece = {.iov_base = &byte, .iov_len = sizeof byte};
  memset(error, 0, sizeof *error);
  struct msghdr message = {
      .msg_name = error->destination,
      .msg_namelen = sizeof error->destination,
      .msg_iov = &piece,
      .msg_iovlen = 1,
      .msg_control = control.space,
      .msg_controllen = sizeof control.space,
  };
  if (recvmsg(fd, &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return -errno;
  error->destination_length = message.msg_namelen;
  for (struct cmsghdr *header = CMSG_FIRSTHDR(&message); header; header = CMSG_NXTHDR(&message, header)) {
    int is_ipv4 = header->cmsg_level == IPPROTO_IP && header->cmsg_type == IP_RECVERR;
    int is_ipv6 = header->cmsg_level == IPPROTO_IPV6 && header->cmsg_type == IPV6_RECVERR;
    if (!is_ipv4 && !is_ipv6) continue;
    struct sock_extended_err entry;
    memcpy(&entry, CMSG_DATA(header), sizeof entry);
    error->error = (int32_t)entry.ee_errno;
    error->origin = entry.ee_origin;
    error->type = entry.ee_type;
    error->code = entry.ee_code;
    error->info = entry.ee_info;
    // The address of the reporter, if known, follows the entry.
    unsigned long size = is_ipv6 ? sizeof(struct sockaddr_in6) : sizeof(struct sockaddr_in);
    if (header->cmsg_len < CMSG_LEN(sizeof entry + size)) continue;
    memcpy(error->reporter, CMSG_DATA(header) + sizeof entry, size);
    if (((struct sockaddr *)error->reporter)->sa_family != AF_UNSPEC) error->reporter_length = (uint32_t)size;
  }
  return 0;
}

// MARK: Multicast

int clinux_multicast(int fd, int joins, uint32_t interface, const void *group, uint32_t group_length,
                     const void *source, uint32_t source_length) {
  int level = ((const struct sockaddr *)group)->sa_family == AF_INET6 ? IPPROTO_IPV6 : IPPROTO_IP;
  int result;
  if (source) {
    struct group_source_req request = {.gsr_interface = interface};
    memcpy(&request.gsr_group, group, group_length);
    memcpy(&request.gsr_source, source, source_length);
    result = setsockopt(fd, level, joins ? MCAST_JOIN_SOURCE_GROUP : MCAST_LEAVE_SOURCE_GROUP, &request, sizeof request);
  } else {
    struct group_req request = {.gr_interface = interface};
    memcpy(&request.gr_group, group, group_length);
    result = setsockopt(fd, level, joins ? MCAST_JOIN_GROUP : MCAST_LEAVE_GROUP, &request, sizeof request);
  }
  return result < 0 ? -errno : 0;
}

int clinux_is_member(int fd, uint32_t interface, const void *group, uint32_t group_length, const void *source) {
  int is_ipv6 = ((const struct sockaddr *)group)->sa_family == AF_INET6;
  const uint32_t most = 128;
  union {
    struct group_filter filter;
    char bytes[GROUP_FILTER_SIZE(128)];
  } memory;
  memset(&memory, 0, sizeof memory);
  struct group_filter *filter = &memory.filter;
  filter->gf_interface = interface;
  filter->gf_numsrc = most;
  memcpy(&filter->gf_group, group, group_length);
  socklen_t length = sizeof memory;
  if (getsockopt(fd, is_ipv6 ? IPPROTO_IPV6 : IPPROTO_IP, MCAST_MSFILTER, filter, &length) < 0) return 0;
  if (!source) return 1;
  // gf_numsrc is the number of all sources, also of those for which there was no room.
  for (uint32_t i = 0; i < filter->gf_numsrc && i < most; i++) {
    const struct sockaddr_storage *wanted = (const struct sockaddr_storage *)(memory.bytes + GROUP_FILTER_SIZE(i));
    int is_same = is_ipv6 ? memcmp(&((const struct sockaddr_in6 *)wanted)->sin6_addr,
                                   &((const struct sockaddr_in6 *)source)->sin6_addr, sizeof(struct in6_addr)) == 0
                          : ((const struct sockaddr_in *)wanted)->sin_addr.s_addr ==
                                ((const struct sockaddr_in *)source)->sin_addr.s_addr;
    if (is_same) return 1;
  }
  return 0;
}
