/* Programs. The compiled code is the source text itself, which nothing reads. Every kernel name is
 * found, and its launch does nothing. */
#include "plugin.h"

#include <string.h>

tenon_status_t null_compile(tenon_on_t on, const tenon_source_t *source, tenon_sink_t *out_code) {
  (void)on;
  void *code = out_code->reserve(out_code, source->text_size);
  if (!code) return TENON_MEMORY; /* the sink has reported the failure */
  memcpy(code, source->text, source->text_size);
  return TENON_OK;
}

tenon_status_t null_program_load(tenon_on_t on, const void *code, uint64_t bytes,
                                 void **out_program) {
  (void)code;
  (void)bytes;
  *out_program = null_handle(on, 1);
  return TENON_OK;
}

tenon_status_t null_kernel_find(tenon_on_t on, void *program, const char *name, void **out_kernel) {
  (void)program;
  (void)name;
  *out_kernel = null_handle(on, 1);
  return TENON_OK;
}

tenon_status_t null_launch(tenon_on_t on, void *stream, const tenon_launch_t *launch) {
  (void)stream;
  null_enqueued(on, &null_of(on)->counts.launches, launch->ticket);
  return TENON_OK;
}
