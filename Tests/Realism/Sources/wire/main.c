// Two network namespaces with a wire between them that delays, limits, queues and loses packets: tun devices, and a loop that copies.
//
// Usage: wire DELAY_MS BITS_PER_SECOND QUEUE_BYTES LOSS CUT_FROM_MS CUT_UNTIL_MS SEED PROGRAM
//
// Runs `PROGRAM serve` at 10.0.0.2 and `PROGRAM run` at 10.0.0.3, waits for the second one, and ends both. A rate or a queue of 0 is
// unlimited. The wire treats each direction as LinkState.swift treats a link: it keeps the order, carries one packet at a time, loses what
// the queue has no room for, and draws the losses at random. It is cut for a time after the first packet of the client, which is its SYN.
// The last line of the output has the number of packets from the client.

#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/if.h>
#include <linux/if_tun.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum { PACKET = 1600, SLOTS = 1 << 16 };

struct packet {
  int64_t due;
  int length;
  unsigned char bytes[PACKET];
};

struct direction {
  int from, to;
  bool is_from_client;
  int64_t busy;
  struct packet *ring;
  uint64_t first, end;
  long packets;
};

static int64_t delay, cut_from, cut_until, start;
static double rate, queue, loss;
static uint64_t state;

static void fail(const char *what) {
  perror(what);
  exit(1);
}

static int64_t now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return time.tv_sec * 1000000000LL + time.tv_nsec;
}

static double fraction(void) {
  uint64_t mixed = state += 0x9e3779b97f4a7c15;
  mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
  mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
  return (double)((mixed ^ mixed >> 31) >> 11) * 0x1p-53;
}

static void set(const char *path, const char *value) {
  int file = open(path, O_WRONLY);
  if (file < 0 || write(file, value, strlen(value)) < 0) fail(path);
  close(file);
}

// Enters a new namespace with a device, and returns the device. The namespace is as Linux has it by default, whatever this machine has.
static int make_namespace(const char *address) {
  if (unshare(CLONE_NEWNET)) fail("unshare");
  // IPv6 would send packets of its own as soon as the device is up.
  set("/proc/sys/net/ipv6/conf/all/disable_ipv6", "1");
  set("/proc/sys/net/ipv6/conf/default/disable_ipv6", "1");
  int device = open("/dev/net/tun", O_RDWR | O_NONBLOCK | O_CLOEXEC);
  if (device < 0) fail("/dev/net/tun");
  struct ifreq request = {.ifr_flags = IFF_TUN | IFF_NO_PI};
  strcpy(request.ifr_name, "wire");
  if (ioctl(device, TUNSETIFF, &request)) fail("TUNSETIFF");
  char command[200];
  snprintf(command, sizeof command,
    "PATH=$PATH:/usr/sbin:/sbin; ip link set lo up && ip link set wire txqueuelen 20000 up && ip address add %s/24 dev wire", address);
  if (system(command)) exit(1);
  set("/proc/sys/net/ipv4/tcp_rmem", "4096 131072 6291456");
  set("/proc/sys/net/ipv4/tcp_wmem", "4096 16384 4194304");
  set("/proc/sys/net/ipv4/tcp_no_metrics_save", "1");
  return device;
}

static pid_t run(const char *program, const char *what) {
  pid_t child = fork();
  if (child < 0) fail("fork");
  if (child == 0) {
    execl(program, program, what, NULL);
    fail(program);
  }
  return child;
}

static void take(struct direction *way) {
  while (way->end - way->first < SLOTS) {
    struct packet *packet = &way->ring[way->end % SLOTS];
    packet->length = read(way->from, packet->bytes, PACKET);
    if (packet->length <= 0) return;
    int64_t time = now(), departure = time;
    way->packets++;
    double chance = fraction();
    if (!start && way->is_from_client) start = time;
    if (rate > 0) {
      if (queue > 0 && way->busy > time && (way->busy - time) * rate / 8e9 + packet->length > queue) continue;
      way->busy = (way->busy > time ? way->busy : time) + (int64_t)(packet->length * 8 / rate * 1e9);
      departure = way->busy;
    }
    if (chance < loss || (start && time - start >= cut_from && time - start < cut_until)) continue;
    packet->due = departure + delay;
    way->end++;
  }
}

static int64_t deliver(struct direction *way) {
  while (way->first < way->end) {
    struct packet *packet = &way->ring[way->first % SLOTS];
    if (packet->due > now()) return packet->due;
    if (write(way->to, packet->bytes, packet->length) < 0 && errno != EIO && errno != EINVAL) fail("write");
    way->first++;
  }
  return INT64_MAX;
}

int main(int count, char **arguments) {
  if (count != 9) return 2;
  delay = atof(arguments[1]) * 1e6;
  rate = atof(arguments[2]);
  queue = atof(arguments[3]);
  loss = atof(arguments[4]);
  cut_from = atof(arguments[5]) * 1e6;
  cut_until = atof(arguments[6]) * 1e6;
  state = strtoull(arguments[7], NULL, 10);
  // Whatever else runs on this machine is not to count. The programs inherit this, and the wire comes before them.
  struct sched_param urgent = {.sched_priority = 1};
  sched_setscheduler(0, SCHED_FIFO, &urgent);
  int near = make_namespace("10.0.0.2");
  pid_t server = run(arguments[8], "serve");
  int far = make_namespace("10.0.0.3");
  usleep(300000);
  pid_t client = run(arguments[8], "run");
  urgent.sched_priority = 10;
  sched_setscheduler(0, SCHED_FIFO, &urgent);
  prctl(PR_SET_TIMERSLACK, 1);
  struct direction ways[2] = {{.from = far, .to = near, .is_from_client = true}, {.from = near, .to = far}};
  for (int i = 0; i < 2; i++) ways[i].ring = malloc(SLOTS * sizeof(struct packet));
  struct pollfd devices[2] = {{.fd = far, .events = POLLIN}, {.fd = near, .events = POLLIN}};
  int status = 0;
  while (waitpid(client, &status, WNOHANG) == 0) {
    int64_t next = now() + 100000000;
    for (int i = 0; i < 2; i++) {
      take(&ways[i]);
      int64_t due = deliver(&ways[i]);
      if (due < next) next = due;
    }
    int64_t wait = next - now();
    struct timespec time = {.tv_nsec = wait < 0 ? 0 : wait > 99999999 ? 99999999 : wait};
    ppoll(devices, 2, &time, NULL);
  }
  kill(server, SIGKILL);
  printf("packets %ld\n", ways[0].packets);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 1;
}
