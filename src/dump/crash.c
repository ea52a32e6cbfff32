/* The text of a crash report; see crash.h. Memory that may be damaged is read through tn_peek
 * only. */
#include "dump/crash.h"

#include <float.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/source.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "dump/location.h"
#include "dump/watch.h"
#include "operator/library.h"

typedef struct words_t {
  char data[4096];
  size_t size;
} words_t;

static words_t words;

static void add_word(const char *text) {
  for (; *text && words.size + 1 < sizeof words.data; text++)
    words.data[words.size++] = *text;
  words.data[words.size] = 0;
}

static void add_number(int64_t number, unsigned base) {
  char digits[24];
  size_t i = sizeof digits - 1;
  uint64_t left = number < 0 && base == 10 ? 0 - (uint64_t)number : (uint64_t)number;
  digits[i] = 0;
  do {
    digits[--i] = "0123456789abcdef"[left % base];
    left /= base;
  } while (left);
  if (number < 0 && base == 10) digits[--i] = '-';
  add_word(base == 16 ? "0x" : "");
  add_word(&digits[i]);
}

/* Adds six significant digits of a finite, positive number. printf may not be called here. */
static void add_digits(double number) {
  char digits[8];
  int exponent = 0;
  int used = 6;
  for (; number >= 10; number /= 10)
    exponent++;
  for (; number < 1; number *= 10)
    exponent--;
  int64_t left = (int64_t)(number * 1e5 + 0.5);
  if (left == 1000000) {
    left = 100000;
    exponent++;
  }
  bool is_plain = exponent >= -4 && exponent < 6;
  int point = is_plain ? exponent + 1 : 1; /* the position of the decimal point */
  digits[used] = 0;
  for (int i = used; i--; left /= 10)
    digits[i] = (char)('0' + left % 10);
  while (used > point && used > 1 && digits[used - 1] == '0')
    digits[--used] = 0;
  if (point <= 0) add_word("0.");
  for (int i = point; i < 0; i++)
    add_word("0");
  for (int i = 0; i < used; i++) {
    if (i && i == point) add_word(".");
    add_word((char[]){digits[i], 0});
  }
  if (is_plain) return;
  add_word("e");
  add_number(exponent, 10);
}

static void add_float(double number) {
  if (number != number) {
    add_word("nan");
    return;
  }
  if (number < 0) add_word("-");
  if (number < 0) number = -number;
  if (number > DBL_MAX)
    add_word("inf");
  else if (number == 0)
    add_word("0");
  else
    add_digits(number);
}

static void add_peeked_text(const char *address) {
  char text[300];
  add_word(tn_peek_text(address, text, sizeof text) ? text : "?");
}

static const char *signal_name(int number) {
  switch (number) {
  case SIGSEGV:
    return "SIGSEGV";
  case SIGBUS:
    return "SIGBUS";
  case SIGILL:
    return "SIGILL";
  case SIGFPE:
    return "SIGFPE";
  case SIGABRT:
    return "SIGABRT";
  default:
    return "a signal";
  }
}

static void add_reason(const tn_crash_t *crash) {
  enum { GUARD = 1 << 16 };
  bool is_memory = crash->signal == SIGSEGV || crash->signal == SIGBUS;
  uintptr_t low = crash->stack_low;
  if (is_memory && low && crash->address + GUARD > low && crash->address < low + GUARD)
    add_word(": the stack is full: unlimited recursion, or large arrays on the stack");
  else if (crash->signal == SIGSEGV && crash->code == SEGV_MAPERR) {
    add_word(": there is no memory at ");
    add_number((int64_t)crash->address, 16);
  } else if (crash->signal == SIGSEGV && crash->code == SEGV_ACCERR) {
    add_word(": an access that the memory's protection forbids, at ");
    add_number((int64_t)crash->address, 16);
  } else if (crash->signal == SIGSEGV && crash->code > 0)
    add_word(": a non-canonical address");
  else if (crash->signal == SIGBUS) {
    add_word(": a misaligned access, or memory beyond the end of a mapped file, at ");
    add_number((int64_t)crash->address, 16);
  } else if (crash->signal == SIGFPE && crash->code == FPE_INTDIV)
    add_word(": an integer division by 0");
  else if (crash->signal == SIGILL) {
    add_word(": an illegal instruction on this CPU, at ");
    add_number((int64_t)crash->address, 16);
  } else if (crash->signal == SIGABRT)
    add_word(": abort() was called: a failed assertion, an uncaught exception, or a damaged heap");
}

static void add_event(const tn_crash_t *crash) {
  if (crash->signal) {
    add_word(signal_name(crash->signal));
    return;
  }
  add_word("exit(");
  add_number(crash->exit_status, 10);
  add_word(") was called");
}

static void add_tensor_summary(const tenon_tensor_t *address) {
  tenon_tensor_t t;
  int64_t extent, stride;
  if (!address) {
    add_word("None");
    return;
  }
  if (!tn_peek(address, &t, sizeof t) || t.ndim < 0 || t.ndim > TENON_RANK_MAX) {
    add_word("?");
    return;
  }
  add_word(tn_dtype_name(t.dtype));
  add_word("[");
  for (int32_t i = 0; i < t.ndim; i++) {
    if (i) add_word(", ");
    if (tn_peek(&t.shape[i], &extent, sizeof extent))
      add_number(extent, 10);
    else
      add_word("?");
  }
  add_word("]");
  if (t.keys & TN_KEY_STRIDED) {
    add_word(" strides [");
    for (int32_t i = 0; i < t.ndim; i++) {
      if (i) add_word(", ");
      if (tn_peek(&t.strides[i], &stride, sizeof stride)) add_number(stride, 10);
    }
    add_word("]");
  }
  add_word(" at ");
  add_number((int64_t)(uintptr_t)t.data, 16);
}

static void add_tensors(const char *role, const tn_argument_t *arguments,
                        tenon_tensor_t *const *tensors, uint32_t count) {
  tn_argument_t argument;
  tenon_tensor_t *tensor;
  for (uint32_t i = 0; i < count && i < 64; i++) {
    if (!tn_peek(&arguments[i], &argument, sizeof argument) ||
        !tn_peek(&tensors[i], &tensor, sizeof tensor))
      continue;
    add_word("  ");
    add_word(role);
    add_word(" ");
    add_peeked_text(argument.name);
    add_word(": ");
    add_tensor_summary(tensor);
    add_word("\n");
  }
}

static void add_attribute_items(const tenon_value_t *value) {
  enum { SHOWN = 16 };
  bool is_float = value->kind == TENON_KIND_FLOATS;
  add_word("[");
  for (uint32_t k = 0; k < value->count && k < SHOWN; k++) {
    int64_t number = 0;
    double real = 0;
    if (k) add_word(", ");
    if (is_float && tn_peek(&value->as.floats[k], &real, sizeof real))
      add_float(real);
    else if (!is_float && tn_peek(&value->as.ints[k], &number, sizeof number))
      add_number(number, 10);
  }
  add_word(value->count > SHOWN ? ", ...]" : "]");
}

static void add_attribute_value(const tenon_value_t *value) {
  switch (value->kind) {
  case TENON_KIND_INT:
  case TENON_KIND_BOOL:
  case TENON_KIND_DIM:
  case TENON_KIND_CHOICE:
    add_number(value->as.i, 10);
    return;
  case TENON_KIND_FLOAT:
    add_float(value->as.f);
    return;
  case TENON_KIND_STR:
    add_word("'");
    add_peeked_text(value->as.s);
    add_word("'");
    return;
  case TENON_KIND_DTYPE:
    add_word(tn_dtype_name(value->as.dtype));
    return;
  case TENON_KIND_INTS:
  case TENON_KIND_DIMS:
  case TENON_KIND_FLOATS:
    add_attribute_items(value);
    return;
  default:
    add_word(value->kind == TENON_KIND_NONE ? "None" : "...");
  }
}

static void add_attrs(const tenon_op_t *op, const tenon_value_t *attrs) {
  tn_argument_t argument;
  tenon_value_t value;
  for (uint32_t i = 0; i < op->schema.attr_count && i < 64; i++) {
    if (!tn_peek(&op->schema.attrs[i], &argument, sizeof argument) ||
        !tn_peek(&attrs[i], &value, sizeof value))
      return;
    add_word("  attribute ");
    add_peeked_text(argument.name);
    add_word(": ");
    add_attribute_value(&value);
    add_word("\n");
  }
}

static const char *phase_of(uint32_t phase) {
  static const char *const names[] = {"?",     "open",    "validate", "create",
                                      "infer", "prepare", "",         "a loop"};
  return phase < sizeof names / sizeof *names ? names[phase] : "?";
}

static bool read_call(const void *call, tn_seen_t *seen, tenon_op_t *op) {
  return tn_peek(call, seen, sizeof *seen) && tn_peek(seen->op, op, sizeof *op);
}

static void add_library(const tenon_op_t *op) {
  tn_library_t library;
  if (!op->library || !tn_peek(op->library, &library, sizeof library)) return;
  add_word("  library ");
  add_peeked_text(library.name);
  add_word(" ");
  add_peeked_text(library.version);
  add_word(" ");
  add_peeked_text(library.path);
  add_word("\n");
}

bool tn_crash_write_call(const tn_crash_t *crash) {
  static tenon_op_t op;
  tn_seen_t seen;
  tenon_call_t call;
  words.size = 0;
  if (!crash->stack.call_count || !read_call(crash->stack.calls[0], &seen, &op)) return false;
  add_word("\ntenon: ");
  add_event(crash);
  add_word(" in ");
  add_peeked_text(op.name);
  if (*phase_of(seen.phase)) {
    add_word(" (");
    add_word(phase_of(seen.phase));
    add_word(")");
  }
  add_reason(crash);
  add_word("\n");
  if (seen.phase == TENON_PHASE_RUN && tn_peek(crash->stack.calls[0], &call, sizeof call)) {
    add_tensors("input", op.schema.inputs, call.inputs, op.schema.input_count);
    add_attrs(&op, call.attrs);
    add_tensors("result", op.schema.outputs, call.outputs, op.schema.output_count);
  } else if (seen.phase != TENON_PHASE_LOOP) {
    add_attrs(&op, seen.attrs);
  }
  add_library(&op);
  for (int i = 1; i < crash->stack.call_count; i++)
    if (read_call(crash->stack.calls[i], &seen, &op)) {
      add_word("  called by ");
      add_peeked_text(op.name);
      add_word("\n");
    }
  if (tn_thread_block && tn_thread_block->graph_node) {
    add_word("  node ");
    add_peeked_text(tn_thread_block->graph_node);
    add_word("\n");
  }
  tn_crash_write(words.data, words.size);
  return true;
}

bool tn_crash_write_location(const tn_crash_t *crash, bool only_libraries) {
  static tn_location_t location;
  bool is_found = tn_location_find(crash->program_counter, &location);
  words.size = 0;
  if (only_libraries && !location.is_library) return false;
  add_word("\ntenon: ");
  add_event(crash);
  add_reason(crash);
  add_word("\n  crashed in ");
  if (location.function[0]) {
    add_word(location.function);
    add_word(" in ");
  }
  if (is_found) {
    add_word(location.path);
    add_word("+");
    add_number((int64_t)location.offset, 16);
    add_word("\n  `addr2line -fe ");
    add_word(location.path);
    add_word(" ");
    add_number((int64_t)location.offset, 16);
    add_word("` names the line");
  } else {
    add_number((int64_t)crash->program_counter, 16);
  }
  add_word(only_libraries
               ? "\n  No operator was running. One that ran before may have destroyed memory: look "
                 "for a write past the end of a result or of an array, which `tenon check` finds.\n"
               : "\n  The call and the stack cannot be shown, because their memory is destroyed: "
                 "look for a write past the end of a result or of an array, which `tenon check` "
                 "finds.\n");
  tn_crash_write(words.data, words.size);
  return true;
}

bool tn_crash_write_frames(const tn_crash_t *crash) {
  tn_text_t text = {0};
  tn_sources_t *sources = tn_sources_open();
  bool knows = false;
  for (int i = 0; i < crash->stack.frame_count; i++) {
    tn_text_add(&text, "  #%-2d ", i);
    knows |= tn_source_at(sources, (uintptr_t)crash->stack.frames[i] - (i > 0), &text);
    tn_text_add(&text, "\n");
  }
  if (knows && !text.failed) tn_crash_write(text.data, text.size);
  return knows && !text.failed;
}

bool tn_crash_save_call(const tn_crash_t *crash) {
  const tn_watched_t *watched = tn_thread_block ? tn_thread_block->watched : NULL;
  char folder[4200], error[80];
  while (watched && !watched->call)
    watched = watched->outer;
  if (!tn_record_is_on() || !watched) return false;
  snprintf(error, sizeof error, "%s", signal_name(crash->signal));
  tn_thread_block->watched = NULL;
  words.size = 0;
  if (tn_watched_save(watched, TENON_INTERNAL, error, folder, sizeof folder) == TENON_OK) {
    add_word("  saved; to repeat the call: tenon replay --gdb ");
    add_word(folder);
    add_word("\n");
  } else {
    add_word("  not saved: ");
    add_word(tn_error());
    add_word("\n");
  }
  tn_crash_write(words.data, words.size);
  return true;
}
