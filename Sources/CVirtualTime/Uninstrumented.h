// Included by each file of this target, which ends with the other half of this. Sanitizers leave the functions as they are: those that are
// replaced also run on threads that have begun or ended only in part, on which the code of the thread sanitizer would fail.
#pragma clang attribute push(__attribute__((disable_sanitizer_instrumentation)), apply_to = function)
