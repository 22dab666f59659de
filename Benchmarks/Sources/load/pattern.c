#include "pattern.h"

#include <string.h>

// splitmix64
static uint64_t next_random(uint64_t *state) {
  uint64_t z = *state += 0x9E3779B97F4A7C15u;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9u;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBu;
  return z ^ (z >> 31);
}

void fill_pattern(uint64_t *state, char *buffer, size_t size) {
  for (size_t i = 0; i < size; i += PATTERN_WORD) {
    uint64_t word = next_random(state);
    memcpy(buffer + i, &word, PATTERN_WORD);
  }
}

uint64_t count_differences(const char *a, const char *b, size_t count) {
  if (memcmp(a, b, count) == 0) return 0;
  uint64_t differences = 0;
  for (size_t i = 0; i < count; i++) differences += a[i] != b[i];
  return differences;
}
