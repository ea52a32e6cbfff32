/* Shows which part of the environment a set-uid program uses; tests/unit/loader/trust_test.c runs
 * it. Its argument is a source file. */
#include <stdio.h>
#include <stdlib.h>
#include <sys/auxv.h>
#include <tenon/tenon.h>
#include <unistd.h>

#include "base/cache.h"

int main(int argc, char **argv) {
  tenon_library_t *library = NULL;
  char *report = NULL;
  char path[4096];
  printf("secure: %d, user %d as %d\n", getauxval(AT_SECURE) != 0, (int)getuid(), (int)geteuid());
  if (tenon_library_load("good", 0, NULL) != TENON_OK) printf("name: %s\n", tenon_error());
  if (tenon_doctor(&report) == TENON_OK) printf("%s", report);
  tenon_text_release(report);
  if (tn_cache_folder(path, sizeof path)) printf("cache: %s\n", path);
  if (tenon_library_load_source(argc > 1 ? argv[1] : "", 0, &library) != TENON_OK) {
    printf("%s\n", tenon_error());
    return 1;
  }
  printf("source: %d operators\n", (int)tenon_library_op_count(library));
  tenon_library_release(library);
  tenon_shutdown();
  return 0;
}
