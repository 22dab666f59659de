// The yardstick: the least a UDP echo server costs on this kernel.
//
// One thread and one socket, registered with epoll once, edge-triggered.
//
// usage: raw-c-udp --single|--batch [PORT]        on 127.0.0.1, port 0 or none lets the kernel choose
//
//   --single   recvfrom and sendto, until nothing is left
//   --batch    recvmmsg and sendmmsg of up to 32 datagrams

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
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

static void send_batch(int fd, unsigned count) {
  for (unsigned i = 0; i < count; i++) vectors[i].iov_len = messages[i].msg_len;
  unsigned sent = 0;
  while (sent < count) {
    int n = sendmmsg(fd, messages + sent, count - sent, 0);
    if (n >= 0) {
      sent += (unsigned)n;
    } else if (errno == EAGAIN) {
      wait_for_room(fd);
    } else if (errno != EINTR) {
      die("sendmmsg");
    }
  }
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

static void run(int fd, bool batch) {
  int epoll = epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) die("epoll_create1");
  struct epoll_event event = {.events = EPOLLIN | EPOLLET};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0) die("epoll_ctl");
  for (;;) {
    int count = epoll_wait(epoll, &event, 1, -1);
    if (count < 0 && errno != EINTR) die("epoll_wait");
    if (count != 1) continue;
    if (batch) {
      echo_in_batches(fd);
    } else {
      echo_singly(fd);
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
  bool batch = argc > 1 && !strcmp(argv[1], "--batch");
  if (argc < 2 || argc > 3 || (!batch && strcmp(argv[1], "--single"))) {
    fprintf(stderr, "usage: raw-c-udp --single|--batch [PORT]\n");
    return 2;
  }
  prepare_batch();
  run(bind_to_loopback(argc == 3 ? parse_port(argv[2]) : 0), batch);
}
