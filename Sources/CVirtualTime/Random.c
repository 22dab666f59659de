// For RTLD_DEFAULT
#define _GNU_SOURCE

#include "CVirtualTime.h"
#include "Uninstrumented.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <unistd.h>

// Defined by ActorSocketsTesting in VirtualThread+Random.swift
uint64_t actorsockets_random(void);

/// Fills memory with the random numbers of the simulation whose thread calls
static void fill_from_simulation(char *bytes, size_t count) {
  while (count > 0) {
    uint64_t number = actorsockets_random();
    size_t part = count < sizeof number ? count : sizeof number;
    memcpy(bytes, &number, part);
    bytes += part;
    count -= part;
  }
}

// MARK: Hashing

// What the hash of every Set and Dictionary begins with: SwiftShims/LibcShims.h. The library chooses it at random in each process
extern struct {
  uint64_t seeds[2];
  bool is_deterministic;
} _swift_stdlib_Hashing_parameters;

bool cvirtualtime_hashes_repeat(void) { return _swift_stdlib_Hashing_parameters.is_deterministic; }

/// Runs before the program does, because a Set that was made before would lose its elements
__attribute__((constructor(101))) static void fix_hashing(void) {
  uint64_t *seeds = _swift_stdlib_Hashing_parameters.seeds;
  // A library that is in the program itself has not chosen yet. This variable of Swift's runtime tells it to choose zero
  if (seeds[0] == 0 && seeds[1] == 0) setenv("SWIFT_DETERMINISTIC_HASHING", "1", true);
  seeds[0] = seeds[1] = 0;
  _swift_stdlib_Hashing_parameters.is_deterministic = true;
}

// MARK: Random numbers

/// What syscall(2) of the C library does
static long system_call(long number, long a, long b, long c, long d, long e, long f) {
  long result;
#if defined(__x86_64__)
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall"
                   : "=a"(result)
                   : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                   : "rcx", "r11", "memory");
#elif defined(__aarch64__)
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  result = x0;
#else
#error "this processor's system calls are not known here"
#endif
  if (result >= 0 || result < -4095) return result;
  errno = (int)-result;
  return -1;
}

static long system_random(void *bytes, size_t count, unsigned flags) {
  return system_call(SYS_getrandom, (long)bytes, (long)count, flags, 0, 0, 0);
}

/// Fills memory with the random numbers of the calling thread: those of its simulation, or the kernel's. The C library's own functions do
/// the same without a simulation
static void fill(void *bytes, size_t count) {
  if (cvirtualtime_owner()) return fill_from_simulation(bytes, count);
  char *next = bytes;
  while (count > 0) {
    long filled = system_random(next, count, 0);
    if (filled < 0 && errno == EINTR) continue;
    if (filled < 0) abort();
    next += filled;
    count -= (size_t)filled;
  }
}

/// syscall(2), by which Swift's `SystemRandomNumberGenerator` asks for random numbers
long replaced_syscall(long number, long a, long b, long c, long d, long e, long f) __asm__("syscall");

long replaced_syscall(long number, long a, long b, long c, long d, long e, long f) {
  if (number == SYS_getrandom && cvirtualtime_owner()) {
    fill_from_simulation((char *)a, (size_t)b);
    return b;
  }
  return system_call(number, a, b, c, d, e, f);
}

// RFC 9562, section 5.4
static void make_uuid(uint8_t uuid[16]) {
  fill(uuid, 16);
  uuid[6] = (uuid[6] & 0x0f) | 0x40;
  uuid[8] = (uuid[8] & 0x3f) | 0x80;
}

// Of Foundation, for `UUID` and `NSUUID`, and of libuuid. They read /dev/urandom and the like. In a program without shared libraries, the
// libraries' own functions stay
__attribute__((weak)) void _foundation_uuid_generate_random(uint8_t uuid[16]) { make_uuid(uuid); }
__attribute__((weak)) void _cf_uuid_generate_random(uint8_t uuid[16]) { make_uuid(uuid); }
__attribute__((weak)) void uuid_generate_random(uint8_t uuid[16]) { make_uuid(uuid); }
__attribute__((weak)) void uuid_generate(uint8_t uuid[16]) { make_uuid(uuid); }

ssize_t getrandom(void *bytes, size_t count, unsigned flags) {
  if (!cvirtualtime_owner()) return system_random(bytes, count, flags);
  fill_from_simulation(bytes, count);
  return (ssize_t)count;
}

int getentropy(void *bytes, size_t count) {
  if (count > 256) {
    errno = EIO;
    return -1;
  }
  fill(bytes, count);
  return 0;
}

void arc4random_buf(void *bytes, size_t count) { fill(bytes, count); }

uint32_t arc4random(void) {
  uint32_t number;
  fill(&number, sizeof number);
  return number;
}

uint32_t arc4random_uniform(uint32_t limit) {
  if (limit < 2) return 0;
  // The number of values that are left out, so that all remainders are equally likely
  uint32_t excess = -limit % limit;
  uint32_t number;
  do number = arc4random();
  while (number < excess);
  return number % limit;
}

// MARK: OpenSSL

// RAND_METHOD of openssl/rand.h
typedef struct {
  int (*seed)(const void *bytes, int count);
  int (*bytes)(unsigned char *bytes, int count);
  void (*cleanup)(void);
  int (*add)(const void *bytes, int count, double entropy);
  int (*pseudo_bytes)(unsigned char *bytes, int count);
  int (*status)(void);
} openssl_method;

static const openssl_method *usual;
static openssl_method method;

static int openssl_bytes(unsigned char *bytes, int count) {
  if (!cvirtualtime_owner()) return usual->bytes(bytes, count);
  fill_from_simulation((char *)bytes, (size_t)count);
  return 1;
}

void cvirtualtime_replace_openssl_random(void) {
  const openssl_method *(*get)(void) = (const openssl_method *(*)(void))dlsym(RTLD_DEFAULT, "RAND_get_rand_method");
  int (*set)(const openssl_method *) = (int (*)(const openssl_method *))dlsym(RTLD_DEFAULT, "RAND_set_rand_method");
  usual = get && set ? get() : NULL;
  if (!usual) return;
  method = *usual;
  method.bytes = method.pseudo_bytes = openssl_bytes;
  set(&method);
}

#pragma clang attribute pop
