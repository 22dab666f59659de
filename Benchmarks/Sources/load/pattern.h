#ifndef PATTERN_H
#define PATTERN_H

#include <stddef.h>
#include <stdint.h>

enum { PATTERN_WORD = 8 };

// Fills a request with a pattern that no other request has: an answer that belongs to another connection, or to an
// earlier request, differs from what is expected. The buffer has room for PATTERN_WORD bytes more than `size`.
void fill_pattern(uint64_t *state, char *buffer, size_t size);

// How many bytes differ.
uint64_t count_differences(const char *a, const char *b, size_t count);

#endif
