// The yardstick: the least an echo server costs on this kernel, or one that reads and discards.
//
// One thread and one epoll instance. Each connection is registered once, edge-triggered, for both
// directions, and never again. An echo costs one recv, one send and a share of an epoll_wait. A peer that sends without a
// pause gets a few turns, and then stands in line behind the others: its edge will not come again.
//
// usage: raw-c-echo [--mode echo|sink|fanout] [PORT]     listens on 127.0.0.1, port 0 or none lets the kernel choose

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

enum { SCRATCH_SIZE = 64 * 1024, EVENTS_PER_WAIT = 256, BACKLOG = 4096, MOST_TURNS = 4 };

// What must survive between two events. An idle connection holds no buffer.
struct connection {
  int fd;
  bool drained;         // the last recv emptied the socket: only a new edge makes another one worthwhile
  bool short_is_empty;  // false once the peer's end or an error was announced, which a short recv can hide
  char *unsent;         // bytes that the kernel did not take yet, or NULL
  size_t unsent_start;
  size_t unsent_end;
  bool is_in_line;
  struct connection *next;  // in the line
  struct connection *before, *after;  // of all
};

// Those that had their turns and had more to read.
static struct {
  struct connection *first;
  struct connection *last;
} line;

// All connections receive into this one: nothing in it outlives the handling of an event.
static char scratch[SCRATCH_SIZE];

// Nothing is sent back.
static bool discards;

// What one sends goes to all.
static bool fans_out;
static struct connection all = {.before = &all, .after = &all};

static void die(const char *what) {
  perror(what);
  exit(1);
}

static void raise_descriptor_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) < 0) die("getrlimit");
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) < 0) die("setrlimit");
}

static int listen_on_loopback(in_port_t port) {
  int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
  if (fd < 0) die("socket");
  int on = 1;
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

static void add_connection(int epoll, int fd) {
  int on = 1;
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0) die("setsockopt");

  struct connection *connection = calloc(1, sizeof *connection);
  if (!connection) die("calloc");
  connection->fd = fd;
  connection->drained = true;
  connection->short_is_empty = true;
  connection->before = &all;
  connection->after = all.after;
  all.after->before = connection;
  all.after = connection;

  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET,
                              .data.ptr = connection};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0) die("epoll_ctl");
}

static void accept_all(int epoll, int listener) {
  for (;;) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      add_connection(epoll, fd);
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      die("accept4");
    }
  }
}

// No event of this wait can still name the connection: epoll reports a descriptor once per wait. Nor is it in the line.
static void close_connection(struct connection *connection) {
  close(connection->fd);
  connection->before->after = connection->after;
  connection->after->before = connection->before;
  free(connection->unsent);
  free(connection);
}

// Returns how many bytes the kernel took, fewer than asked if its buffer is full, or -1 on an error.
static ssize_t send_some(int fd, const char *bytes, size_t count) {
  size_t sent = 0;
  while (sent < count) {
    ssize_t n = send(fd, bytes + sent, count - sent, MSG_NOSIGNAL);
    if (n >= 0) {
      sent += (size_t)n;
    } else if (errno == EAGAIN) {
      break;
    } else if (errno != EINTR) {
      return -1;
    }
  }
  return (ssize_t)sent;
}

static bool keep_unsent(struct connection *connection, const char *bytes, size_t count) {
  connection->unsent = malloc(count);
  if (!connection->unsent) return false;
  memcpy(connection->unsent, bytes, count);
  connection->unsent_start = 0;
  connection->unsent_end = count;
  return true;
}

// False if the connection failed. Bytes may remain unsent after it.
static bool send_unsent(struct connection *connection) {
  if (!connection->unsent) return true;
  ssize_t n = send_some(connection->fd, connection->unsent + connection->unsent_start,
                        connection->unsent_end - connection->unsent_start);
  if (n < 0) return false;
  connection->unsent_start += (size_t)n;
  if (connection->unsent_start == connection->unsent_end) {
    free(connection->unsent);
    connection->unsent = NULL;
  }
  return true;
}

static void stand_in_line(struct connection *connection) {
  connection->is_in_line = true;
  connection->next = NULL;
  if (line.first) line.last->next = connection;
  else line.first = connection;
  line.last = connection;
}

// To one that is full or has failed, nothing is sent: an event closes it.
static bool send_to_all(const char *bytes, size_t count) {
  for (struct connection *one = all.after; one != &all; one = one->after) {
    if (one->unsent) continue;
    ssize_t sent = send_some(one->fd, bytes, count);
    if (sent >= 0 && (size_t)sent < count && !keep_unsent(one, bytes + sent, count - (size_t)sent)) return false;
  }
  return true;
}

// Receives, and echoes, until the socket is empty, or until the peer must read before more can be sent.
// False if the connection ended.
static bool serve(struct connection *connection) {
  for (unsigned turns = 0; !connection->drained && !connection->unsent; turns++) {
    if (turns == MOST_TURNS) {
      stand_in_line(connection);
      return true;
    }
    ssize_t received = recv(connection->fd, scratch, sizeof scratch, 0);
    if (received == 0) return false;
    if (received < 0) {
      if (errno == EINTR) continue;
      if (errno != EAGAIN) return false;
      connection->drained = true;
      return true;
    }
    // Less than asked for means empty. It saves the recv that would only say EAGAIN.
    connection->drained = connection->short_is_empty && (size_t)received < sizeof scratch;
    if (discards) continue;
    if (fans_out) {
      if (!send_to_all(scratch, (size_t)received)) return false;
      continue;
    }

    ssize_t sent = send_some(connection->fd, scratch, (size_t)received);
    if (sent < 0) return false;
    if (sent < received && !keep_unsent(connection, scratch + sent, (size_t)(received - sent))) {
      return false;
    }
  }
  return true;
}

static void handle(struct connection *connection, uint32_t events) {
  if (events & (EPOLLRDHUP | EPOLLHUP | EPOLLERR)) connection->short_is_empty = false;
  if (events & (EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR)) connection->drained = false;
  if (connection->is_in_line) return;
  if (!send_unsent(connection) || !serve(connection)) close_connection(connection);
}

// Who stands in line again stands in a new one.
static void serve_line(void) {
  struct connection *connection = line.first;
  line.first = line.last = NULL;
  while (connection) {
    struct connection *next = connection->next;
    connection->is_in_line = false;
    if (!send_unsent(connection) || !serve(connection)) close_connection(connection);
    connection = next;
  }
}

static void run(int epoll, int listener) {
  struct epoll_event events[EVENTS_PER_WAIT];
  for (;;) {
    int count = epoll_wait(epoll, events, EVENTS_PER_WAIT, line.first ? 0 : -1);
    if (count < 0 && errno != EINTR) die("epoll_wait");
    for (int i = 0; i < count; i++) {
      if (events[i].data.ptr) {
        handle(events[i].data.ptr, events[i].events);
      } else {
        accept_all(epoll, listener);
      }
    }
    serve_line();
  }
}

static bool parse_port(const char *text, in_port_t *port) {
  char *end;
  long number = strtol(text, &end, 10);
  if (end == text || *end != '\0' || number < 0 || number > 65535) return false;
  *port = (in_port_t)number;
  return true;
}

// False if there is a mistake in the arguments.
static bool parse_arguments(int argc, char **argv, in_port_t *port) {
  int next = 1;
  if (argc > 2 && !strcmp(argv[1], "--mode")) {
    discards = !strcmp(argv[2], "sink");
    fans_out = !strcmp(argv[2], "fanout");
    if (!discards && !fans_out && strcmp(argv[2], "echo")) return false;
    next = 3;
  }
  return next == argc || (next == argc - 1 && parse_port(argv[next], port));
}

int main(int argc, char **argv) {
  in_port_t port = 0;
  if (!parse_arguments(argc, argv, &port)) {
    fprintf(stderr, "usage: raw-c-echo [--mode echo|sink|fanout] [PORT]\n");
    return 2;
  }
  raise_descriptor_limit();
  int listener = listen_on_loopback(port);

  int epoll = epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) die("epoll_create1");
  // The listener is the one without a connection. Level-triggered: nothing is lost if a wait is cut short.
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) < 0) die("epoll_ctl");
  run(epoll, listener);
}
