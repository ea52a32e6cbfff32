/* Compiles files with the function `compile` of the device "cuda", which needs NVRTC and no GPU:
 * cuda_compile ARCH FILE... It prints a line for each file, or the compiler's messages. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cuda/compile.h"
#include "cuda/program.h"

static tenon_status_t fail(const void *context, tenon_status_t code, const char *format, ...) {
  va_list list;
  (void)context;
  va_start(list, format);
  vfprintf(stdout, format, list);
  va_end(list);
  fputc('\n', stdout);
  return code;
}
static const tenon_host_t host = {.size = sizeof host, .abi = TENON_ABI, .fail = fail};

typedef struct code_t {
  tenon_sink_t sink;
  char *data;
  uint64_t bytes;
} code_t;

static void *reserve(tenon_sink_t *sink, uint64_t bytes) {
  code_t *code = (code_t *)sink;
  code->bytes = bytes;
  return code->data = realloc(code->data, bytes);
}

int main(int argc, char **argv) {
  static char text[1 << 20];
  const char *settings = getenv("TENON_CUDA");
  int failed = 0;
  cu_device_t device = {.arch = argc > 1 ? atoi(argv[1]) : 0, .target = "test"};
  tenon_device_context_t on = {
      .size = sizeof on, .host = &host, .state = &device, .settings = settings ? settings : ""};
  if (argc < 2 || cu_nvrtc_open(&on, 0) != TENON_OK) return 77;
  for (int i = 2; i < argc; i++) {
    FILE *file = fopen(argv[i], "rb");
    if (!file) {
      perror(argv[i]);
      return 2;
    }
    size_t size = fread(text, 1, sizeof text - 1, file);
    fclose(file);
    text[size] = 0;
    code_t code = {.sink = {sizeof code.sink, 0, reserve}};
    tenon_source_t source = {sizeof source, TENON_SOURCE_CUDA, text, size, argv[i], ""};
    if (cu_program_compile(&on, &source, &code.sink) == TENON_OK) {
      const char *at = code.data + sizeof(cu_head_t);
      printf("%s: %s of %llu bytes\n", argv[i], memcmp(at, "\177ELF", 4) == 0 ? "CUBIN" : "PTX",
             (unsigned long long)(code.bytes - sizeof(cu_head_t)));
    } else {
      failed++;
    }
    free(code.data);
  }
  return failed > 0;
}
