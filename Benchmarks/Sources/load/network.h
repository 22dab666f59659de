#ifndef NETWORK_H
#define NETWORK_H

#include <stdbool.h>
#include <sys/socket.h>

struct target {
  struct sockaddr_storage address;
  socklen_t length;
};

// Takes numeric loopback addresses only: this program must not be aimed at anybody else's machine.
bool target_parse(struct target *target, const char *host, const char *port);

// A connected, blocking socket whose operations time out, or -1 with errno set.
int target_connect(const struct target *target);

// A non-blocking socket that is being connected, or -1 with errno set. IPv4 sources are taken in turns from 127.0.1.1 to
// 127.0.1.250, so that closed connections do not use up the ports.
int target_begin_connecting(const struct target *target, unsigned turn);

// A connected, non-blocking datagram socket, or -1 with errno set.
int target_connect_datagrams(const struct target *target);

// Raises the limit to what is allowed; false if that is less than `count` descriptors.
bool allow_descriptors(unsigned count);

#endif
