// The yardstick: the least a UDP echo server costs on this kernel.
//
// One thread and one socket, registered with epoll once, edge-triggered.
//
// usage: raw-c-udp --single|--batch|--stream|--stream-offload [PORT]        on 127.0.0.1, port 0 or none lets the kernel choose
//
//   --single   recvfrom and sendto, until nothing is left
//   --batch    recvmmsg and sendmmsg of up to 32 datagrams
//   --stream   takes and sends bursts as load/udp_stream.c says, with recvmmsg and sendmmsg of up to 32 datagrams
//   --stream-offload
//              the same; the kernel joins and divides datagrams (UDP_GRO, UDP_SEGMENT)

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/udp.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BATCH = 32, LARGEST = 16 * 1024 };

static char buffers[BATCH][LARGEST];
static struct sockaddr_in senders[BATCH];
static struct iovec vectors[BATCH];
static struct mmsghdr messages[BATCH];

static void die(const char *what) {
  perror(what);
  exit(1);
}

static int bind_to_loopback(in_port_t port) {
  int fd = socket(AF_INET, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) die("socket");
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0) die("bind");

  socklen_t length = sizeof address;
  if (getsockname(fd, (struct sockaddr *)&address, &length) < 0) die("getsockname");
  fprintf(stderr, "listening on 127.0.0.1:%u\n", (unsigned)ntohs(address.sin_port));
  return fd;
}

static void wait_for_room(int fd) {
  struct pollfd room = {.fd = fd, .events = POLLOUT};
  if (poll(&room, 1, -1) < 0 && errno != EINTR) die("poll");
}

// Until the socket is empty: an edge comes only for a datagram that arrives later.
static void echo_singly(int fd) {
  for (;;) {
    socklen_t length = sizeof senders[0];
    ssize_t received = recvfrom(fd, buffers[0], LARGEST, 0, (struct sockaddr *)&senders[0], &length);
    if (received < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) die("recvfrom");
      return;
    }
    while (sendto(fd, buffers[0], (size_t)received, 0, (struct sockaddr *)&senders[0], length) < 0) {
      if (errno == EAGAIN) {
        wait_for_room(fd);
      } else if (errno != EINTR) {
        die("sendto");
      }
    }
  }
}

static void prepare_batch(void) {
  for (unsigned i = 0; i < BATCH; i++) {
    vectors[i].iov_base = buffers[i];
    messages[i].msg_hdr.msg_name = &senders[i];
    messages[i].msg_hdr.msg_iov = &vectors[i];
    messages[i].msg_hdr.msg_iovlen = 1;
  }
}

static void send_all(int fd, struct mmsghdr *outgoing, unsigned count) {
  unsigned sent = 0;
  while (sent < count) {
    int n = sendmmsg(fd, outgoing + sent, count - sent, 0);
    if (n >= 0) {
      sent += (unsigned)n;
    } else if (errno == EAGAIN) {
      wait_for_room(fd);
    } else if (errno != EINTR) {
      die("sendmmsg");
    }
  }
}

static void send_batch(int fd, unsigned count) {
  for (unsigned i = 0; i < count; i++) vectors[i].iov_len = messages[i].msg_len;
  send_all(fd, messages, count);
}

static void echo_in_batches(int fd) {
  int received;
  do {
    for (unsigned i = 0; i < BATCH; i++) {
      vectors[i].iov_len = LARGEST;
      messages[i].msg_hdr.msg_namelen = sizeof senders[i];
    }
    received = recvmmsg(fd, messages, BATCH, 0, NULL);
    if (received < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) die("recvmmsg");
      return;
    }
    send_batch(fd, (unsigned)received);
    // Fewer than asked for: the kernel found no more.
  } while (received < 0 || received == BATCH);
}

// --- Streams ---

enum { ANSWER_THIS = 1, SEND_BURST = 2, JOINED_BATCH = 8, JOINED_SIZE = 65536, LARGEST_BURST = 64 };

static char joined[JOINED_BATCH][JOINED_SIZE];
static char controls[JOINED_BATCH][CMSG_SPACE(sizeof(int))];
static char burst[JOINED_SIZE];

static void send_burst(int fd, struct sockaddr_in *receiver, unsigned count, unsigned size, bool offload) {
  static struct mmsghdr outgoing[LARGEST_BURST];
  static struct iovec pieces[LARGEST_BURST];
  union {
    char bytes[CMSG_SPACE(sizeof(uint16_t))];
    struct cmsghdr header;
  } control = {.bytes = {0}};
  if (count == 0 || count > LARGEST_BURST || size < 2 || count * size > sizeof burst) return;
  for (unsigned i = 0; i < count; i++) {
    // The datagrams are made for each burst, as in a server that has something to say.
    memset(burst + i * size, 0, size);
    burst[i * size] = (char)i;
    pieces[i] = (struct iovec){.iov_base = burst + i * size, .iov_len = size};
    outgoing[i].msg_hdr = (struct msghdr){
        .msg_name = receiver, .msg_namelen = sizeof *receiver, .msg_iov = &pieces[i], .msg_iovlen = 1};
  }
  if (offload && count > 1) {
    uint16_t segment = (uint16_t)size;
    pieces[0].iov_len = count * size;
    control.header.cmsg_level = SOL_UDP;
    control.header.cmsg_type = UDP_SEGMENT;
    control.header.cmsg_len = CMSG_LEN(sizeof segment);
    memcpy(CMSG_DATA(&control.header), &segment, sizeof segment);
    outgoing[0].msg_hdr.msg_control = control.bytes;
    outgoing[0].msg_hdr.msg_controllen = sizeof control.bytes;
    count = 1;
  }
  send_all(fd, outgoing, count);
}

static void take_datagram(int fd, struct sockaddr_in *sender, const char *bytes, size_t length, bool offload) {
  if (length == 0) return;
  if (bytes[0] == ANSWER_THIS) {
    char answer = 0;
    struct iovec piece = {.iov_base = &answer, .iov_len = 1};
    struct mmsghdr message = {
        .msg_hdr = {.msg_name = sender, .msg_namelen = sizeof *sender, .msg_iov = &piece, .msg_iovlen = 1}};
    send_all(fd, &message, 1);
  } else if (bytes[0] == SEND_BURST && length == 4) {
    unsigned size = (unsigned)(unsigned char)bytes[2] << 8 | (unsigned char)bytes[3];
    send_burst(fd, sender, (unsigned char)bytes[1], size, offload);
  }
}

static size_t segment_size(struct msghdr *message) {
  for (struct cmsghdr *header = CMSG_FIRSTHDR(message); header; header = CMSG_NXTHDR(message, header)) {
    if (header->cmsg_level != SOL_UDP || header->cmsg_type != UDP_GRO) continue;
    int size;
    memcpy(&size, CMSG_DATA(header), sizeof size);
    return (size_t)size;
  }
  return 0;
}

static void stream(int fd, bool offload) {
  int most = offload ? JOINED_BATCH : BATCH;
  int received;
  do {
    for (int i = 0; i < most; i++) {
      vectors[i] = offload ? (struct iovec){.iov_base = joined[i], .iov_len = JOINED_SIZE}
                           : (struct iovec){.iov_base = buffers[i], .iov_len = LARGEST};
      messages[i].msg_hdr.msg_namelen = sizeof senders[i];
      messages[i].msg_hdr.msg_control = offload ? controls[i] : NULL;
      messages[i].msg_hdr.msg_controllen = offload ? sizeof controls[i] : 0;
    }
    received = recvmmsg(fd, messages, (unsigned)most, 0, NULL);
    if (received < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) die("recvmmsg");
      return;
    }
    for (int i = 0; i < received; i++) {
      size_t count = messages[i].msg_len;
      size_t segment = offload ? segment_size(&messages[i].msg_hdr) : 0;
      if (segment == 0) segment = count;
      for (size_t start = 0; start < count; start += segment) {
        size_t length = count - start < segment ? count - start : segment;
        take_datagram(fd, &senders[i], (char *)vectors[i].iov_base + start, length, offload);
      }
    }
  } while (received < 0 || received == most);
}

enum way { SINGLE, IN_BATCHES, STREAM, STREAM_OFFLOAD };

static void run(int fd, enum way way) {
  int epoll = epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) die("epoll_create1");
  struct epoll_event event = {.events = EPOLLIN | EPOLLET};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0) die("epoll_ctl");
  for (;;) {
    int count = epoll_wait(epoll, &event, 1, -1);
    if (count < 0 && errno != EINTR) die("epoll_wait");
    if (count != 1) continue;
    switch (way) {
      case SINGLE: echo_singly(fd); break;
      case IN_BATCHES: echo_in_batches(fd); break;
      case STREAM: stream(fd, false); break;
      case STREAM_OFFLOAD: stream(fd, true); break;
    }
  }
}

static in_port_t parse_port(const char *text) {
  char *end;
  long port = strtol(text, &end, 10);
  if (end == text || *end != '\0' || port < 0 || port > 65535) {
    fprintf(stderr, "raw-c-udp: not a port: %s\n", text);
    exit(2);
  }
  return (in_port_t)port;
}

int main(int argc, char **argv) {
  static const char *const ways[] = {"--single", "--batch", "--stream", "--stream-offload"};
  int way = 0;
  while (argc > 1 && way < 4 && strcmp(argv[1], ways[way])) way++;
  if (argc < 2 || argc > 3 || way == 4) {
    fprintf(stderr, "usage: raw-c-udp --single|--batch|--stream|--stream-offload [PORT]\n");
    return 2;
  }
  prepare_batch();
  int fd = bind_to_loopback(argc == 3 ? parse_port(argv[2]) : 0);
  int on = 1;
  if (way == STREAM_OFFLOAD && setsockopt(fd, SOL_UDP, UDP_GRO, &on, sizeof on) < 0) die("setsockopt");
  run(fd, (enum way)way);
}
