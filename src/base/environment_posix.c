/* The environment over POSIX. The kernel reports a process with elevated rights by AT_SECURE, which
 * secure_getenv checks as well. */
#include "base/environment.h"

#include <stdlib.h>
#include <sys/auxv.h>

extern char **environ;

const char *tn_environment(const char *name) { return secure_getenv(name); }

char **tn_environment_of_children(void) {
  static char path[] = "PATH=/usr/bin:/bin";
  static char *plain[] = {path, NULL};
  return getauxval(AT_SECURE) ? plain : environ;
}
