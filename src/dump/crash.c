/* The words of a crash report; see crash.h.  What may be broken is read through tn_peek. */
#include "dump/crash.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/source.h"
#include "base/status.h"
#include "base/thread.h"
#include "core/dtype.h"
#include "dump/watch.h"
#include "operator/library.h"

/* words, without an allocation */

typedef struct words_t {
  char data[4096];
  size_t size;
} words_t;

static words_t words;

static void add(const char *text) {
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
  add(base == 16 ? "0x" : "");
  add(&digits[i]);
}

static void add_text_at(const char *address) {
  char text[300];
  add(tn_peek_text(address, text, sizeof text) ? text : "?");
}

/* what happened */

static const char *name_of(int number) {
  return number == SIGSEGV   ? "SIGSEGV"
         : number == SIGBUS  ? "SIGBUS"
         : number == SIGILL  ? "SIGILL"
         : number == SIGFPE  ? "SIGFPE"
         : number == SIGABRT ? "SIGABRT"
                             : "a signal";
}

static void add_reason(const tn_crash_t *crash) {
  enum { GUARD = 1 << 16 };
  bool is_memory = crash->signal == SIGSEGV || crash->signal == SIGBUS;
  uintptr_t low = crash->stack_low;
  if (is_memory && low && crash->address + GUARD > low && crash->address < low + GUARD)
    add(": the stack is full: does it call itself without end, or keep large arrays there?");
  else if (crash->signal == SIGSEGV && crash->code == SEGV_MAPERR) {
    add(": there is no memory at ");
    add_number((int64_t)crash->address, 16);
  } else if (crash->signal == SIGSEGV && crash->code == SEGV_ACCERR) {
    add(": memory that may not be used so, at ");
    add_number((int64_t)crash->address, 16);
  } else if (crash->signal == SIGSEGV && crash->code > 0)
    add(": an address that no memory can have");
  else if (crash->signal == SIGBUS) {
    add(": memory that is not there, or not aligned, at ");
    add_number((int64_t)crash->address, 16);
  } else if (crash->signal == SIGFPE && crash->code == FPE_INTDIV)
    add(": an integer was divided by 0");
  else if (crash->signal == SIGILL) {
    add(": an instruction that this processor has not, at ");
    add_number((int64_t)crash->address, 16);
  } else if (crash->signal == SIGABRT)
    add(": abort() was called: a failed assertion, an exception that nobody caught, a damaged "
        "heap");
}

/* the call */

static void add_tensor(const tenon_tensor_t *address) {
  tenon_tensor_t t;
  int64_t extent, stride;
  if (!address) {
    add("None");
    return;
  }
  if (!tn_peek(address, &t, sizeof t) || t.ndim < 0 || t.ndim > TENON_RANK_MAX) {
    add("?");
    return;
  }
  add(tn_dtype_name(t.dtype));
  add("[");
  for (int32_t i = 0; i < t.ndim; i++) {
    if (i) add(", ");
    if (tn_peek(&t.shape[i], &extent, sizeof extent))
      add_number(extent, 10);
    else
      add("?");
  }
  add("]");
  if (t.keys & TN_KEY_STRIDED) {
    add(" strides [");
    for (int32_t i = 0; i < t.ndim; i++) {
      if (i) add(", ");
      if (tn_peek(&t.strides[i], &stride, sizeof stride)) add_number(stride, 10);
    }
    add("]");
  }
  add(" at ");
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
    add("  ");
    add(role);
    add(" ");
    add_text_at(argument.name);
    add(": ");
    add_tensor(tensor);
    add("\n");
  }
}

static void add_attrs(const tenon_op_t *op, const tenon_value_t *attrs) {
  tn_argument_t argument;
  tenon_value_t value;
  for (uint32_t i = 0; i < op->schema.attr_count && i < 64; i++) {
    if (!tn_peek(&op->schema.attrs[i], &argument, sizeof argument) ||
        !tn_peek(&attrs[i], &value, sizeof value))
      return;
    add("  attribute ");
    add_text_at(argument.name);
    add(": ");
    if (value.kind == TENON_KIND_INT || value.kind == TENON_KIND_BOOL ||
        value.kind == TENON_KIND_DIM || value.kind == TENON_KIND_CHOICE)
      add_number(value.as.i, 10);
    else if (value.kind == TENON_KIND_STR) {
      add("'");
      add_text_at(value.as.s);
      add("'");
    } else if (value.kind == TENON_KIND_DTYPE)
      add(tn_dtype_name(value.as.dtype));
    else if (value.kind == TENON_KIND_INTS || value.kind == TENON_KIND_DIMS) {
      add("[");
      for (uint32_t k = 0; k < value.count && k < 16; k++) {
        int64_t number = 0;
        if (k) add(", ");
        if (tn_peek(&value.as.ints[k], &number, sizeof number)) add_number(number, 10);
      }
      add(value.count > 16 ? ", ...]" : "]");
    } else
      add(value.kind == TENON_KIND_NONE ? "None" : "...");
    add("\n");
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
  add("  library ");
  add_text_at(library.name);
  add(" ");
  add_text_at(library.version);
  add(" ");
  add_text_at(library.path);
  add("\n");
}

bool tn_crash_say(const tn_crash_t *crash) {
  static tenon_op_t op;
  tn_seen_t seen;
  tenon_call_t call;
  words.size = 0;
  if (!crash->stack.call_count || !read_call(crash->stack.calls[0], &seen, &op)) return false;
  add("\ntenon: ");
  add(name_of(crash->signal));
  add(" in ");
  add_text_at(op.name);
  if (*phase_of(seen.phase)) {
    add(" (");
    add(phase_of(seen.phase));
    add(")");
  }
  add_reason(crash);
  add("\n");
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
      add("  called by ");
      add_text_at(op.name);
      add("\n");
    }
  if (tn_thread_block && tn_thread_block->graph_node) {
    add("  node ");
    add_text_at(tn_thread_block->graph_node);
    add("\n");
  }
  tn_crash_write(words.data, words.size);
  return true;
}

/* in a copy of the process */

bool tn_crash_say_frames(const tn_crash_t *crash) {
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

bool tn_crash_record(const tn_crash_t *crash) {
  const tn_watched_t *watched = tn_thread_block ? tn_thread_block->watched : NULL;
  char folder[4200], error[80];
  while (watched && !watched->call)
    watched = watched->outer;
  if (!tn_record_is_on() || !watched) return false;
  snprintf(error, sizeof error, "%s", name_of(crash->signal));
  tn_thread_block->watched = NULL;
  words.size = 0;
  if (tn_watched_save(watched, TENON_INTERNAL, error, folder, sizeof folder) == TENON_OK) {
    add("  recorded; to repeat it: tenon replay --gdb ");
    add(folder);
    add("\n");
  } else {
    add("  not recorded: ");
    add(tn_error());
    add("\n");
  }
  tn_crash_write(words.data, words.size);
  return true;
}
