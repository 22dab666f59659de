#include "network.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <unistd.h>

enum { OPERATION_TIMEOUT_SECONDS = 10, FIRST_SOURCE = 0x7F000101, SOURCE_COUNT = 250 };

static bool parse_ipv4(struct target *target, const char *host, in_port_t port) {
  struct sockaddr_in *address = (struct sockaddr_in *)&target->address;
  if (inet_pton(AF_INET, host, &address->sin_addr) != 1) return false;
  address->sin_family = AF_INET;
  address->sin_port = htons(port);
  target->length = sizeof *address;
  return ntohl(address->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
}

static bool parse_ipv6(struct target *target, const char *host, in_port_t port) {
  struct sockaddr_in6 *address = (struct sockaddr_in6 *)&target->address;
  if (inet_pton(AF_INET6, host, &address->sin6_addr) != 1) return false;
  address->sin6_family = AF_INET6;
  address->sin6_port = htons(port);
  target->length = sizeof *address;
  return IN6_IS_ADDR_LOOPBACK(&address->sin6_addr);
}

bool target_parse(struct target *target, const char *host, const char *port) {
  char *end;
  long number = strtol(port, &end, 10);
  if (end == port || *end != '\0' || number < 1 || number > 65535) return false;
  memset(target, 0, sizeof *target);
  return parse_ipv4(target, host, (in_port_t)number) || parse_ipv6(target, host, (in_port_t)number);
}

static bool bind_source(int fd, unsigned turn) {
  int on = 1;
  struct sockaddr_in source = {.sin_family = AF_INET,
                               .sin_addr.s_addr = htonl(FIRST_SOURCE + turn % SOURCE_COUNT)};
  return setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &on, sizeof on) == 0 &&
         bind(fd, (const struct sockaddr *)&source, sizeof source) == 0;
}

int target_begin_connecting(const struct target *target, unsigned turn) {
  int on = 1, family = target->address.ss_family;
  int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 && (family != AF_INET || bind_source(fd, turn)) &&
      (connect(fd, (const struct sockaddr *)&target->address, target->length) == 0 || errno == EINPROGRESS)) {
    return fd;
  }
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

int target_connect(const struct target *target) {
  int fd = socket(target->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;

  int on = 1;
  struct timeval timeout = {.tv_sec = OPERATION_TIMEOUT_SECONDS};
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) == 0 &&
      setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &timeout, sizeof timeout) == 0 &&  // connect obeys it too
      setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &timeout, sizeof timeout) == 0 &&
      connect(fd, (const struct sockaddr *)&target->address, target->length) == 0) {
    return fd;
  }
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

int target_connect_datagrams(const struct target *target) {
  int fd = socket(target->address.ss_family, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
  if (fd < 0) return -1;
  if (connect(fd, (const struct sockaddr *)&target->address, target->length) == 0) return fd;
  int error = errno;
  close(fd);
  errno = error;
  return -1;
}

bool allow_descriptors(unsigned count) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) < 0) return false;
  limit.rlim_cur = limit.rlim_max;
  return setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max >= count;
}
