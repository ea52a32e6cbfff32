/* The environment over POSIX: the kernel says by AT_SECURE whether whoever started the process has
 * fewer rights than it. */
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
