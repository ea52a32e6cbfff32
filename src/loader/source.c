/* Libraries from source code: built, cached and loaded. The compiler and the cache are in
 * toolchain/. */
#include <stddef.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/file.h"
#include "base/status.h"
#include "loader/binary.h"
#include "toolchain/built.h"

static tenon_status_t check_build(const tenon_build_t *build) {
  static const uint32_t known = TENON_BUILD_FRESH;
  if (!build || build->size < offsetof(tenon_build_t, context) + sizeof build->context)
    return tn_fail(
        TENON_INVALID,
        "cannot build a library: the tenon_build_t is NULL, or its field `size` is not set");
  if (build->flags & ~known)
    return tn_fail(TENON_INVALID,
                   "cannot build a library: unknown flags 0x%x: expected TENON_BUILD_...",
                   build->flags & ~known);
  for (uint32_t i = 0; i < build->source_count; i++)
    if (!build->sources || !build->sources[i])
      return tn_fail(TENON_INVALID, "cannot build a library: source %u is NULL", i);
  for (uint32_t i = 0; i < build->option_count; i++)
    if (!build->options || !build->options[i])
      return tn_fail(TENON_INVALID, "cannot build a library: option %u is NULL", i);
  return tenon_start();
}

tenon_status_t tenon_library_build(const tenon_build_t *build, const char *path) {
  tn_built_t built;
  tn_file_t file;
  TN_TRY(check_build(build));
  if (!path || !*path)
    return tn_fail(TENON_INVALID, "cannot build a library: the path is %s",
                   path ? "empty" : "NULL");
  TN_TRY(tn_build(build, path, TN_ENTRY, NULL, &built));
  tenon_status_t status = tn_file_map(built.path, &file);
  if (status == TENON_OK) {
    status = tn_file_replace(path, file.data, file.size, 0777);
    tn_file_unmap(&file);
  }
  tn_built_release(&built);
  return status;
}

tenon_status_t tenon_library_load_build(const tenon_build_t *build, uint32_t flags,
                                        tenon_library_t **out_library) {
  tn_built_t built;
  if (out_library) *out_library = NULL;
  TN_TRY(check_build(build));
  const char *name = build->source_count ? build->sources[0] : "the library";
  TN_TRY(tn_build(build, name, TN_ENTRY, NULL, &built));
  tenon_status_t status = tenon_library_load(built.path, flags, out_library);
  if (status != TENON_OK) /* the path in the message is that of the cache */
    status = tn_fail(status, "%s: %s", name, tn_error());
  tn_built_release(&built);
  return status;
}

tenon_status_t tenon_library_load_source(const char *path, uint32_t flags,
                                         tenon_library_t **out_library) {
  const tenon_build_t build = {.size = sizeof build, .source_count = 1, .sources = &path};
  if (path) return tenon_library_load_build(&build, flags, out_library);
  if (out_library) *out_library = NULL;
  return tn_fail(TENON_INVALID, "cannot load a library from source: the path is NULL");
}
