// The yardstick of TLS: the least a TLS server costs with this OpenSSL on this kernel.
//
// One thread and one epoll instance, OpenSSL directly on the sockets. Each connection is registered once, edge-triggered,
// for both directions, and never again.
//
// The read buffer of 64 KiB is what was fastest: as OpenSSL has it (0: two recv a record), an echo costs a tenth more, and
// receiving at full speed a third more.
//
// usage: raw-c-tls-echo --certificate FILE --key FILE [--mode echo|sink|source] [--read-buffer BYTES]
//                       [--own-bio on|off] [--release-buffers on|off] [PORT]
// TLS 1.3 only. Listens on 127.0.0.1, port 0 or none lets the kernel choose.

#define _GNU_SOURCE

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "connection.h"

enum { EVENTS_PER_WAIT = 256, BACKLOG = 4096, LARGEST_READ_BUFFER = 1024 * 1024 };

struct options {
  const char *certificate;
  const char *key;
  enum mode mode;
  long read_buffer;      // bytes that one recv may take; 0: one for each record's header and one for its body
  bool own_bio;          // the BIO of socket_bio.h instead of OpenSSL's
  bool release_buffers;  // an idle connection holds none of OpenSSL's buffers
  long port;
};

static void die(const char *what) {
  perror(what);
  exit(1);
}

static void die_of_openssl(const char *what) {
  fprintf(stderr, "raw-c-tls-echo: %s\n", what);
  ERR_print_errors_fp(stderr);
  exit(1);
}

static void raise_descriptor_limit(void) {
  struct rlimit limit;
  if (getrlimit(RLIMIT_NOFILE, &limit) < 0) die("getrlimit");
  limit.rlim_cur = limit.rlim_max;
  if (setrlimit(RLIMIT_NOFILE, &limit) < 0) die("setrlimit");
}

static SSL_CTX *make_context(const struct options *options) {
  SSL_CTX *context = SSL_CTX_new(TLS_server_method());
  if (!context || SSL_CTX_set_min_proto_version(context, TLS1_3_VERSION) != 1) die_of_openssl("no context");
  if (SSL_CTX_use_certificate_chain_file(context, options->certificate) != 1) die_of_openssl(options->certificate);
  if (SSL_CTX_use_PrivateKey_file(context, options->key, SSL_FILETYPE_PEM) != 1) die_of_openssl(options->key);
  SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
  if (options->release_buffers) SSL_CTX_set_mode(context, SSL_MODE_RELEASE_BUFFERS);
  // As ActorSockets does; OpenSSL's default is two.
  SSL_CTX_set_num_tickets(context, 1);
  SSL_CTX_set_read_ahead(context, options->read_buffer > 0);
  SSL_CTX_set_default_read_buffer_len(context, (size_t)options->read_buffer);  // a record fits in any case
  // Tickets carry the sessions: none is kept here.
  SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
  return context;
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

static void add_connection(int epoll, SSL_CTX *context, int fd) {
  int on = 1;
  if (setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on) < 0) die("setsockopt");
  struct connection *connection = connection_open(context, fd);
  if (!connection) die_of_openssl("no connection");
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLRDHUP | EPOLLET, .data.ptr = connection};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event) < 0) die("epoll_ctl");
}

static void accept_all(int epoll, SSL_CTX *context, int listener) {
  for (;;) {
    int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
    if (fd >= 0) {
      add_connection(epoll, context, fd);
    } else if (errno == EAGAIN) {
      return;
    } else if (errno != EINTR && errno != ECONNABORTED) {
      die("accept4");
    }
  }
}

static void run(int epoll, SSL_CTX *context, int listener) {
  struct epoll_event events[EVENTS_PER_WAIT];
  for (;;) {
    int count = epoll_wait(epoll, events, EVENTS_PER_WAIT, -1);
    if (count < 0 && errno != EINTR) die("epoll_wait");
    for (int i = 0; i < count; i++) {
      // No event of this wait can still name a connection that ends here: epoll reports a descriptor once per wait.
      struct connection *connection = events[i].data.ptr;
      if (!connection) {
        accept_all(epoll, context, listener);
      } else if (!connection_advance(connection, events[i].events)) {
        connection_close(connection);
      }
    }
  }
}

static bool parse_mode(const char *text, enum mode *mode) {
  static const char *const names[] = {[MODE_ECHO] = "echo", [MODE_SINK] = "sink", [MODE_SOURCE] = "source"};
  for (unsigned i = 0; i < sizeof names / sizeof *names; i++) {
    if (strcmp(text, names[i])) continue;
    *mode = (enum mode)i;
    return true;
  }
  return false;
}

static bool parse_switch(const char *text, bool *result) {
  *result = !strcmp(text, "on");
  return *result || !strcmp(text, "off");
}

static bool parse_number(const char *text, long most, long *result) {
  char *end;
  *result = strtol(text, &end, 10);
  return end != text && *end == '\0' && *result >= 0 && *result <= most;
}

static bool parse_option(struct options *options, const char *name, const char *value) {
  if (!strcmp(name, "--mode")) return parse_mode(value, &options->mode);
  if (!strcmp(name, "--read-buffer")) return parse_number(value, LARGEST_READ_BUFFER, &options->read_buffer);
  if (!strcmp(name, "--own-bio")) return parse_switch(value, &options->own_bio);
  if (!strcmp(name, "--release-buffers")) return parse_switch(value, &options->release_buffers);
  if (!strcmp(name, "--certificate")) options->certificate = value;
  else if (!strcmp(name, "--key")) options->key = value;
  else return false;
  return true;
}

static bool parse_arguments(struct options *options, int argc, char **argv) {
  int i = 1;
  for (; i + 1 < argc; i += 2) {
    if (!parse_option(options, argv[i], argv[i + 1])) return false;
  }
  if (i < argc && !parse_number(argv[i], UINT16_MAX, &options->port)) return false;
  return options->certificate && options->key;
}

int main(int argc, char **argv) {
  struct options options = {.read_buffer = 64 * 1024, .release_buffers = true};
  if (!parse_arguments(&options, argc, argv)) {
    fprintf(stderr,
            "usage: raw-c-tls-echo --certificate FILE --key FILE [--mode echo|sink|source] [--read-buffer BYTES]\n"
            "                      [--own-bio on|off] [--release-buffers on|off] [PORT]\n");
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);  // OpenSSL writes to its sockets with write
  raise_descriptor_limit();
  connections_prepare(options.mode, options.own_bio);
  SSL_CTX *context = make_context(&options);
  int listener = listen_on_loopback((in_port_t)options.port);

  int epoll = epoll_create1(EPOLL_CLOEXEC);
  if (epoll < 0) die("epoll_create1");
  // The listener is the one without a connection. Level-triggered: nothing is lost if a wait is cut short.
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
  if (epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event) < 0) die("epoll_ctl");
  run(epoll, context, listener);
}
