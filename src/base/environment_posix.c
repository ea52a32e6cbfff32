/* The environment over POSIX. The kernel reports a process with elevated rights by AT_SECURE, which
 * secure_getenv checks as well. */
#include "base/environment.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>

#include "base/memory.h"

extern char **environ;

const char *tn_environment(const char *name) { return secure_getenv(name); }

char **tn_environment_of_children(void) {
  static char path[] = "PATH=/usr/bin:/bin";
  static char *plain[] = {path, NULL};
  return getauxval(AT_SECURE) ? plain : environ;
}

/* Does the pattern, which may end in '*', match a name of `size` characters? */
static bool matches_name(const char *pattern, size_t pattern_size, const char *name, size_t size) {
  if (pattern_size && pattern[pattern_size - 1] == '*')
    return size >= pattern_size - 1 && !memcmp(pattern, name, pattern_size - 1);
  return size == pattern_size && !memcmp(pattern, name, size);
}

static bool is_in_list(const char *patterns, const char *name, size_t size) {
  static const char separators[] = " ,:";
  while (patterns && *patterns) {
    const size_t length = strcspn(patterns, separators);
    if (length && matches_name(patterns, length, name, size)) return true;
    patterns += length;
    patterns += strspn(patterns, separators);
  }
  return false;
}

char **tn_environment_of_strangers(void) {
  static const char plain[] =
      "LD_LIBRARY_PATH LD_PRELOAD LD_BIND_NOW GLIBC_TUNABLES MALLOC_* LANG LANGUAGE LC_* TZ PATH "
      "HOME TMPDIR XDG_CACHE_HOME TENON_* OMP_* GOMP_* KMP_* MKL_* OPENBLAS_* DNNL_* ONEDNN_* "
      "ASAN_OPTIONS TSAN_OPTIONS UBSAN_OPTIONS LSAN_OPTIONS";
  /* The program records, traces and explains the calls itself, and reports crashes. */
  static const char of_program[] =
      "TENON_RECORD TENON_RECORD_* TENON_NAN TENON_TRACE TENON_EXPLAIN TENON_CRASH";
  char **all = tn_environment_of_children();
  const char *more = tn_environment("TENON_ISOLATION_KEEP");
  size_t count = 0;
  size_t kept = 0;
  while (all[count])
    count++;
  char **out = tn_allocate((count + 1) * sizeof *out);
  for (size_t i = 0; out && i < count; i++) {
    const size_t size = strcspn(all[i], "=");
    if (is_in_list(of_program, all[i], size)) continue;
    if (is_in_list(plain, all[i], size) || is_in_list(more, all[i], size)) out[kept++] = all[i];
  }
  if (out) out[kept] = NULL;
  return out;
}
