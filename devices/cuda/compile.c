#include "compile.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "program.h"

enum {
  ARCHS_MOST = 64,
  OPTIONS_MOST = 64,
  OURS = 3,
};

typedef struct cu_target_t {
  char option[40]; /* --gpu-architecture=... */
  bool is_ptx;
} cu_target_t;

static tenon_status_t fail_rtc(tenon_on_t on, cu_result_t error, const char *file) {
  return tenon_fail(on, error == RTC_ERROR_OUT_OF_MEMORY ? TENON_MEMORY : TENON_UNKNOWN,
                    "cuda:%d: %s: NVRTC: %s (%u)", on->ordinal, file, rtc.GetErrorString(error),
                    error);
}

static tenon_status_t target_of(tenon_on_t on, const char *file, cu_target_t *out) {
  int archs[ARCHS_MOST];
  int count = 0;
  int best = 0;
  int wanted = cu_device(on)->arch;
  cu_result_t error = rtc.GetNumSupportedArchs(&count);
  if (!error && count > ARCHS_MOST) return fail_rtc(on, RTC_ERROR_OUT_OF_MEMORY, file);
  if (!error) error = rtc.GetSupportedArchs(archs);
  if (error) return fail_rtc(on, error, file);
  for (int i = 0; i < count; i++)
    if (archs[i] <= wanted && archs[i] > best) best = archs[i];
  if (!best) {
    int major = 0;
    int minor = 0;
    rtc.Version(&major, &minor);
    return tenon_fail(
        on, TENON_UNAVAILABLE,
        "cuda:%d: %s: NVRTC %d.%d compiles for sm_%d and newer, and the GPU is sm_%d: set "
        "TENON_CUDA=nvrtc=PATH to an older one",
        on->ordinal, file, major, minor, count ? archs[0] : 0, wanted);
  }
  out->is_ptx = best != wanted;
  snprintf(out->option, sizeof out->option, "--gpu-architecture=%s_%d",
           out->is_ptx ? "compute" : "sm", best);
  return TENON_OK;
}

static tenon_status_t fail_compile(tenon_on_t on, rtc_program_t program, cu_result_t error,
                                   const char *file) {
  size_t size = 0;
  char *log = NULL;
  if (!rtc.GetProgramLogSize(program, &size) && size && (log = (char *)calloc(1, size + 1)))
    rtc.GetProgramLog(program, log);
  tenon_status_t status = tenon_fail(
      on, TENON_INVALID, "cuda:%d: %s cannot be compiled for sm_%d: %s (%u)\n%s", on->ordinal, file,
      cu_device(on)->arch, rtc.GetErrorString(error), error, log ? log : "NVRTC says nothing more");
  free(log);
  return status;
}

static tenon_status_t code_into(tenon_on_t on, rtc_program_t program, const cu_target_t *target,
                                const char *file, tenon_sink_t *out_code) {
  size_t size = 0;
  cu_result_t error =
      target->is_ptx ? rtc.GetPTXSize(program, &size) : rtc.GetCUBINSize(program, &size);
  if (error) return fail_rtc(on, error, file);
  char *code = (char *)out_code->reserve(out_code, sizeof(cu_head_t) + size);
  if (!code) return TENON_MEMORY; /* the failure has been reported */
  char *at = code + sizeof(cu_head_t);
  if ((error = target->is_ptx ? rtc.GetPTX(program, at) : rtc.GetCUBIN(program, at)))
    return fail_rtc(on, error, file);
  cu_head_t head = cu_head_of(on, at, size);
  memcpy(code, &head, sizeof head);
  return TENON_OK;
}

/* `room` is a copy of the options of the source; it is split at its spaces. */
static int options_set(const char **options, const cu_target_t *target, char *room) {
  int count = 0;
  options[count++] = target->option;
  options[count++] = "--std=c++17";
  options[count++] =
      "--fmad=false"; /* as on the CPU: an author writes mad() where one rounding is enough */
  for (char *word = strtok_r(room, " ", &room); word && count < OPTIONS_MOST;
       word = strtok_r(NULL, " ", &room))
    options[count++] = word;
  return count;
}

tenon_status_t cu_program_compile(tenon_on_t on, const tenon_source_t *source,
                                  tenon_sink_t *out_code) {
  const char *file = source->file ? source->file : "source";
  const char *options[OPTIONS_MOST];
  rtc_program_t program = NULL;
  cu_target_t target;
  if (source->language != TENON_SOURCE_CUDA)
    return tenon_fail(on, TENON_UNIMPLEMENTED,
                      "cuda:%d: %s is in language %u; CUDA C++ (%d) is compiled here", on->ordinal,
                      file, source->language, TENON_SOURCE_CUDA);
  TENON_TRY(cu_nvrtc_open(on, cu_device(on)->version));
  TENON_TRY(target_of(on, file, &target));
  char *room = strdup(source->options ? source->options : "");
  if (!room)
    return tenon_fail(on, TENON_MEMORY, "cuda:%d: no host memory to compile %s", on->ordinal, file);
  int count = options_set(options, &target, room);
  tenon_status_t status;
  cu_result_t error = rtc.CreateProgram(&program, source->text, file, 0, NULL, NULL);
  if (error) {
    status = fail_rtc(on, error, file);
  } else {
    error = rtc.CompileProgram(program, count, options);
    status = error ? fail_compile(on, program, error, file)
                   : code_into(on, program, &target, file, out_code);
    rtc.DestroyProgram(&program);
  }
  free(room);
  return status;
}
