// The yardstick: the least that taking lines or messages apart costs on this kernel.
//
// One connection after the other, blocking, received into one buffer. Lines are found with memchr and nothing is copied but
// the part of a frame at the buffer's end. At the end of the stream the answer is how many frames there were, and the sum
// of their bytes.
//
// usage: raw-c-framing --mode lines|messages [PORT]        on 127.0.0.1, port 0 or none lets the kernel choose

#include <arpa/inet.h>
#include <errno.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

enum { BUFFER_SIZE = 64 * 1024, LENGTH_SIZE = 4, BACKLOG = 16 };

struct tally {
  uint64_t count;
  uint64_t sum;
};

static void die(const char *what) {
  perror(what);
  exit(1);
}

static int listen_on_loopback(in_port_t port) {
  int on = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) die("socket");
  if (setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on) < 0) die("setsockopt");
  struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(port)};
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (bind(fd, (struct sockaddr *)&address, sizeof address) < 0) die("bind");
  if (listen(fd, BACKLOG) < 0) die("listen");

  socklen_t length = sizeof address;
  if (getsockname(fd, (struct sockaddr *)&address, &length) < 0) die("getsockname");
  fprintf(stderr, "listening on 127.0.0.1:%u\n", (unsigned)ntohs(address.sin_port));
  return fd;
}

static void add(struct tally *tally, const char *bytes, size_t count) {
  uint64_t sum = 0;
  for (size_t i = 0; i < count; i++) sum += (unsigned char)bytes[i];
  tally->sum += sum;
  tally->count++;
}

// Returns how many bytes it used up.
static size_t take_lines(struct tally *tally, const char *bytes, size_t count) {
  const char *start = bytes, *end = bytes + count, *newline;
  while ((newline = memchr(start, '\n', (size_t)(end - start)))) {
    add(tally, start, (size_t)(newline - start));
    start = newline + 1;
  }
  return (size_t)(start - bytes);
}

static size_t take_messages(struct tally *tally, const char *bytes, size_t count) {
  size_t used = 0;
  while (count - used >= LENGTH_SIZE) {
    uint32_t length;
    memcpy(&length, bytes + used, LENGTH_SIZE);
    length = ntohl(length);
    if (count - used - LENGTH_SIZE < length) break;
    add(tally, bytes + used + LENGTH_SIZE, length);
    used += LENGTH_SIZE + length;
  }
  return used;
}

static void serve(int fd, bool lines) {
  static char buffer[BUFFER_SIZE];
  struct tally tally = {0};
  size_t kept = 0;
  for (;;) {
    ssize_t received = recv(fd, buffer + kept, sizeof buffer - kept, 0);
    if (received < 0 && errno == EINTR) continue;
    if (received <= 0) break;  // also when a frame is larger than the buffer
    size_t count = kept + (size_t)received;
    size_t used = lines ? take_lines(&tally, buffer, count) : take_messages(&tally, buffer, count);
    kept = count - used;
    memmove(buffer, buffer + used, kept);
  }
  char answer[64];
  int length = snprintf(answer, sizeof answer, "%" PRIu64 " %" PRIu64 "\n", tally.count, tally.sum);
  if (kept > 0 || send(fd, answer, (size_t)length, MSG_NOSIGNAL) != length) {
    fprintf(stderr, "raw-c-framing: a connection failed\n");
  }
}

static in_port_t parse_port(const char *text) {
  char *end;
  long port = strtol(text, &end, 10);
  if (end == text || *end != '\0' || port < 0 || port > 65535) {
    fprintf(stderr, "raw-c-framing: not a port: %s\n", text);
    exit(2);
  }
  return (in_port_t)port;
}

int main(int argc, char **argv) {
  bool lines = argc > 2 && !strcmp(argv[2], "lines");
  if (argc < 3 || argc > 4 || strcmp(argv[1], "--mode") || (!lines && strcmp(argv[2], "messages"))) {
    fprintf(stderr, "usage: raw-c-framing --mode lines|messages [PORT]\n");
    return 2;
  }
  int listener = listen_on_loopback(argc == 4 ? parse_port(argv[3]) : 0);
  for (;;) {
    int on = 1, fd = accept(listener, NULL, NULL);
    if (fd < 0 && errno != EINTR && errno != ECONNABORTED) die("accept");
    if (fd < 0) continue;
    if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0) die("setsockopt");
    serve(fd, lines);
    close(fd);
  }
}
