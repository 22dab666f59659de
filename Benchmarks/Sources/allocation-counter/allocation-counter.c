// Counts the allocations of a program that is started with this library in LD_PRELOAD.
//
// The counts are in a file that ALLOCATION_COUNTS names, mapped into memory: whoever maps or reads it sees them grow. It is
// there, as large as struct counts, before the program starts.
//
// The allocator itself stays glibc's. It is called by the names that glibc has for those who replace malloc: a look for
// the next malloc with dlsym would allocate.

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

extern void *__libc_malloc(size_t size);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *old, size_t size);
extern void *__libc_memalign(size_t alignment, size_t size);

struct counts {
  atomic_uint_fast64_t allocations;
  atomic_uint_fast64_t bytes;  // as asked for
};

// What is allocated before the file is mapped is of no interest.
static struct counts too_early;
static struct counts *counts = &too_early;

__attribute__((constructor)) static void map_counts(void) {
  const char *path = getenv("ALLOCATION_COUNTS");
  int fd = path ? open(path, O_RDWR | O_CLOEXEC) : -1;
  if (fd < 0) return;
  void *mapped = mmap(NULL, sizeof *counts, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  close(fd);
  if (mapped != MAP_FAILED) counts = mapped;
}

static void count(size_t bytes) {
  atomic_fetch_add_explicit(&counts->allocations, 1, memory_order_relaxed);
  atomic_fetch_add_explicit(&counts->bytes, bytes, memory_order_relaxed);
}

void *malloc(size_t size) {
  count(size);
  return __libc_malloc(size);
}

void *calloc(size_t number, size_t size) {
  count(number * size);
  return __libc_calloc(number, size);
}

// Also one that finds room where it is: the program asked.
void *realloc(void *old, size_t size) {
  count(size);
  return __libc_realloc(old, size);
}

void *memalign(size_t alignment, size_t size) {
  count(size);
  return __libc_memalign(alignment, size);
}

void *aligned_alloc(size_t alignment, size_t size) { return memalign(alignment, size); }

int posix_memalign(void **result, size_t alignment, size_t size) {
  if (alignment % sizeof(void *) != 0 || alignment == 0 || (alignment & (alignment - 1)) != 0) return EINVAL;
  void *memory = memalign(alignment, size);
  if (!memory) return ENOMEM;
  *result = memory;
  return 0;
}
