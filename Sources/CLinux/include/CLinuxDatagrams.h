// Datagrams, several with one system call: recvmmsg(2), sendmmsg(2), and the control messages that go with them.
//
// Included by CLinux.h, whose rules hold here, too.

#ifndef CLINUX_DATAGRAMS_H
#define CLINUX_DATAGRAMS_H

#include <stdint.h>

/// The most datagrams in a batch
enum { CLINUX_BATCH_CAPACITY = 64 };

/// What the kernel keeps about a datagram beside its bytes: cmsg(3), ip(7), ipv6(7).
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

/// Addresses are in network order, an IPv4 one in the first four bytes.
typedef struct {
  /// Which of these there are: CLINUX_HAS_…
  uint32_t present;
  uint32_t interface;
  /// Where the datagram was sent to; of one that is sent, where it comes from
  uint8_t local[16];
  /// The address of this machine to answer from, which differs where that is a group
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

/// The headers of a batch of datagrams, to be received or to be sent. The bytes are elsewhere.
typedef struct clinux_batch clinux_batch;

/// NULL for want of memory
clinux_batch *_Nullable clinux_batch_create(void);
void clinux_batch_destroy(clinux_batch *_Nonnull batch);

/// recvmmsg(2) with MSG_DONTWAIT and MSG_CMSG_CLOEXEC of up to `count` datagrams: the bytes of number `i` go to `memory` +
/// `i * size`, and what is longer is cut. With `with_metadata` there is room for the metadata of each datagram, and always for
/// `descriptors` descriptors with each. Without any room, the kernel drops the control messages and closes the descriptors in
/// them. With room, call `clinux_batch_take_descriptors` once for each datagram.
int clinux_batch_receive(clinux_batch *_Nonnull batch, int fd, uint8_t *_Nonnull memory, unsigned long size, int count,
                         int with_metadata, int descriptors);
/// Of a datagram that was received: the number of its bytes that there are
unsigned long clinux_batch_length(const clinux_batch *_Nonnull batch, int index);
/// Of a datagram that was received: whether it was longer
int clinux_batch_is_truncated(const clinux_batch *_Nonnull batch, int index);
/// Of a datagram that was received: a struct sockaddr_storage with the address it came from, and how much of it is filled
const void *_Nonnull clinux_batch_address(const clinux_batch *_Nonnull batch, int index, uint32_t *_Nonnull length);
/// Of a datagram that was received: whether control messages or descriptors were lost because there was no room for them:
/// MSG_CTRUNC
int clinux_batch_is_control_truncated(const clinux_batch *_Nonnull batch, int index);
/// Of a datagram that was received: moves up to `most` of the descriptors that came with it to `descriptors`, closes the
/// others, and returns how many came. A second call returns 0.
int clinux_batch_take_descriptors(clinux_batch *_Nonnull batch, int index, int *_Nullable descriptors, int most);
/// Of a datagram that was received: what was asked for
void clinux_batch_metadata(const clinux_batch *_Nonnull batch, int index, clinux_metadata *_Nonnull metadata);

/// Begins a batch to be sent.
void clinux_batch_clear(clinux_batch *_Nonnull batch);
/// Adds a datagram, whose bytes stay where they are until it is sent. Without an address it goes to the connected peer. Up to
/// CLINUX_MAXIMUM_DESCRIPTORS descriptors go along; they must stay open until the datagram is sent. The batch must have room.
void clinux_batch_add(clinux_batch *_Nonnull batch, const uint8_t *_Nullable bytes, unsigned long length,
                      const void *_Nullable address, uint32_t address_length,
                      const clinux_metadata *_Nullable metadata, const int *_Nullable descriptors, int descriptor_count);
/// sendmmsg(2) with MSG_DONTWAIT and MSG_NOSIGNAL: how many of the batch were sent, or why the first was not
int clinux_batch_send(clinux_batch *_Nonnull batch, int fd);
/// sendto(2) with MSG_NOSIGNAL, or send(2) without an address
long clinux_sendto(int fd, const void *_Nullable bytes, unsigned long count, const void *_Nullable address,
                   uint32_t address_length);

/// An entry of a socket's error queue: ip(7), IP_RECVERR. Addresses are struct sockaddr_storage, filled up to their lengths.
typedef struct {
  /// The error number; 0 if the entry is no error
  int32_t error;
  /// SO_EE_ORIGIN_…: 1 this machine, 2 ICMP, 3 ICMPv6
  uint8_t origin;
  uint8_t type;
  uint8_t code;
  /// The largest packet for EMSGSIZE
  uint32_t info;
  /// Where the datagram went that the error is about
  uint64_t destination[16];
  uint32_t destination_length;
  /// Who reported it
  uint64_t reporter[16];
  uint32_t reporter_length;
} clinux_socket_error;

/// recvmsg(2) with MSG_ERRQUEUE: 0, or -EAGAIN when there is none
int clinux_receive_error(int fd, clinux_socket_error *_Nonnull error);

/// setsockopt(2) of MCAST_JOIN_GROUP, MCAST_LEAVE_GROUP and their forms with a source: RFC 3678. Addresses are struct sockaddr.
int clinux_multicast(int fd, int joins, uint32_t interface, const void *_Nonnull group, uint32_t group_length,
                     const void *_Nullable source, uint32_t source_length);

#endif
