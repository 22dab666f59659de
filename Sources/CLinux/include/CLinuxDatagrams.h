// Datagrams, several per system call: recvmmsg(2), sendmmsg(2), and their control messages.
//
// Included by CLinux.h, whose rules also apply here.

#ifndef CLINUX_DATAGRAMS_H
#define CLINUX_DATAGRAMS_H

#include <stdint.h>

/// The largest number of datagrams in a batch
enum { CLINUX_BATCH_CAPACITY = 64 };

/// The metadata of a datagram: cmsg(3), ip(7), ipv6(7)
enum {
  /// `interface` and `local`: IP_PKTINFO, IPV6_PKTINFO
  CLINUX_HAS_LOCAL = 1,
  /// `traffic_class`: IP_TOS, IPV6_TCLASS
  CLINUX_HAS_TRAFFIC_CLASS = 2,
  /// `hop_limit`: IP_TTL, IPV6_HOPLIMIT
  CLINUX_HAS_HOP_LIMIT = 4,
  /// `seconds` and `nanoseconds`: SO_TIMESTAMPNS
  CLINUX_HAS_TIMESTAMP = 8,
  /// `process`, `user` and `group`: SO_PASSCRED
  CLINUX_HAS_CREDENTIALS = 16,
};

/// Addresses are in network byte order; an IPv4 address is in the first four bytes
typedef struct {
  /// The fields that are set: CLINUX_HAS_…
  uint32_t present;
  uint32_t interface;
  /// The address that the datagram was sent to; for a datagram to be sent, its source address
  uint8_t local[16];
  /// The local address to reply from, which differs from `local` if that is a multicast group
  uint8_t answer[16];
  uint8_t is_ipv6;
  uint8_t traffic_class;
  uint8_t hop_limit;
  int64_t seconds;
  int64_t nanoseconds;
  int32_t process;
  uint32_t user;
  uint32_t group;
} clinux_metadata;

/// The headers of a batch of datagrams to receive or to send. The bytes are stored elsewhere.
typedef struct clinux_batch clinux_batch;

/// Returns NULL if there is not enough memory
clinux_batch *_Nullable clinux_batch_create(void);
void clinux_batch_destroy(clinux_batch *_Nonnull batch);

/// recvmmsg(2) with MSG_DONTWAIT and MSG_CMSG_CLOEXEC of up to `count` datagrams. The bytes of datagram `i` go to `memory + i *
/// size`; longer datagrams are cut off. `with_metadata` makes room for the metadata of each datagram, and `descriptors` is the
/// number of descriptors of each datagram that there is room for. Without any room, the kernel drops the control messages and
/// closes the descriptors in them. With room, call `clinux_batch_take_descriptors` once for each datagram.
int clinux_batch_receive(clinux_batch *_Nonnull batch, int fd, uint8_t *_Nonnull memory, unsigned long size, int count,
                         int with_metadata, int descriptors);
/// The number of bytes of a received datagram
unsigned long clinux_batch_length(const clinux_batch *_Nonnull batch, int index);
/// Whether a received datagram was longer than `size`
int clinux_batch_is_truncated(const clinux_batch *_Nonnull batch, int index);
/// The length of the datagrams that the kernel joined into a received message, of which only the last may be shorter: UDP_GRO, udp(7).
/// 0 if the message is one datagram
unsigned long clinux_batch_segment_size(const clinux_batch *_Nonnull batch, int index);
/// The address that a received datagram came from, as a struct sockaddr_storage, and its length
const void *_Nonnull clinux_batch_address(const clinux_batch *_Nonnull batch, int index, uint32_t *_Nonnull length);
/// Whether control messages or descriptors of a received datagram were lost because there was no room for them: MSG_CTRUNC
int clinux_batch_is_control_truncated(const clinux_batch *_Nonnull batch, int index);
/// Moves up to `most` descriptors of a received datagram to `descriptors`, closes the others, and returns how many arrived. A
/// second call returns 0.
int clinux_batch_take_descriptors(clinux_batch *_Nonnull batch, int index, int *_Nullable descriptors, int most);
/// The metadata of a received datagram
void clinux_batch_metadata(const clinux_batch *_Nonnull batch, int index, clinux_metadata *_Nonnull metadata);
/// Describes a datagram of a simulated socket as clinux_batch_receive describes one of the kernel's. Up to
/// CLINUX_MAXIMUM_DESCRIPTORS descriptors came with it
void clinux_batch_fill(clinux_batch *_Nonnull batch, int index, unsigned long length, int is_truncated,
                       const void *_Nonnull address, uint32_t address_length, const clinux_metadata *_Nonnull metadata,
                       const int *_Nullable descriptors, int descriptor_count, int is_control_truncated);

/// The descriptors that are passed with a message to be sent, and their number
const int *_Nullable clinux_batch_passed(const clinux_batch *_Nonnull batch, int index, int *_Nonnull count);

/// Starts a batch to send
void clinux_batch_clear(clinux_batch *_Nonnull batch);
/// Adds a datagram. Its bytes must stay in place until it is sent. Without an address it goes to the connected peer. Up to
/// CLINUX_MAXIMUM_DESCRIPTORS descriptors are passed with it; they must stay open until the datagram is sent. The batch must
/// have room.
void clinux_batch_add(clinux_batch *_Nonnull batch, const uint8_t *_Nullable bytes, unsigned long length,
                      const void *_Nullable address, uint32_t address_length,
                      const clinux_metadata *_Nullable metadata, const int *_Nullable descriptors, int descriptor_count);
/// Joins a datagram to the one that was added last. Its bytes must follow those in memory. The kernel divides the message into datagrams
/// of `segment_size` bytes, the length of the first: UDP_SEGMENT, udp(7). Only the last datagram may be shorter
void clinux_batch_extend(clinux_batch *_Nonnull batch, unsigned long length, uint16_t segment_size);
/// sendmmsg(2) with MSG_DONTWAIT and MSG_NOSIGNAL: the number of messages that were sent, or why the first one was not sent
int clinux_batch_send(clinux_batch *_Nonnull batch, int fd);
/// sendto(2) with MSG_NOSIGNAL; without an address, send(2)
long clinux_sendto(int fd, const void *_Nullable bytes, unsigned long count, const void *_Nullable address,
                   uint32_t address_length);

/// An entry of a socket's error queue: ip(7), IP_RECVERR. Addresses are struct sockaddr_storage, filled up to their lengths.
typedef struct {
  /// The errno; 0 if the entry is not an error
  int32_t error;
  /// SO_EE_ORIGIN_…: 1 is this machine, 2 is ICMP, 3 is ICMPv6
  uint8_t origin;
  uint8_t type;
  uint8_t code;
  /// For EMSGSIZE: the size of the largest packet
  uint32_t info;
  /// The destination of the datagram that the error is about
  uint64_t destination[16];
  uint32_t destination_length;
  /// The host or router that reported it
  uint64_t reporter[16];
  uint32_t reporter_length;
} clinux_socket_error;

/// recvmsg(2) with MSG_ERRQUEUE: 0, or -EAGAIN if the queue is empty
int clinux_receive_error(int fd, clinux_socket_error *_Nonnull error);

/// setsockopt(2) with MCAST_JOIN_GROUP, MCAST_LEAVE_GROUP, or their variants with a source: RFC 3678. Addresses are struct
/// sockaddr.
int clinux_multicast(int fd, int joins, uint32_t interface, const void *_Nonnull group, uint32_t group_length,
                     const void *_Nullable source, uint32_t source_length);

/// getsockopt(2) with MCAST_MSFILTER, RFC 3678: 1 if the socket is in the group on this interface, for this source if there is one;
/// otherwise 0. Only the first 128 sources of the group are found. Addresses are struct sockaddr.
int clinux_is_member(int fd, uint32_t interface, const void *_Nonnull group, uint32_t group_length,
                     const void *_Nullable source);

#endif
