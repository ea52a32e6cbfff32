/* Calls functions of a library and stops C++ exceptions that they throw. */
#ifndef BRIDGES_MXNET_GUARD_H
#define BRIDGES_MXNET_GUARD_H

#include <stddef.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Calls function(argument), gives its result; -1 if it threw, and then `why` is what the exception
 * says. */
int guard_call(int (*function)(void *), void *argument, char *why, size_t capacity);
/* For functions that the library calls, and that it gives no way to fail: ends the call of
 * guard_call that it is in. */
void guard_throw(const char *why);

#ifdef __cplusplus
}
#endif
#endif
