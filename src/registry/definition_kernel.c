/* The kernels of a definition: checks which words may be combined, and adds each kernel to
 * the operator or to the extension.  definition.c calls it for each item that states a kernel. */
#include "registry/definition_kernel.h"

#include <stdio.h>
#include <string.h>

#include "core/dtype.h"
#include "drivers/iterator.h"
#include "drivers/loop.h"
#include "drivers/row.h"
#include "operator/table.h"

/* The dtypes of the deciding input that the kernel serves; all ones: any. */
static uint64_t dtypes_of(const tenon_op_t *op, const tn_kernel_t *kernel) {
  if (kernel->kind != TN_KIND_LOOP && kernel->kind != TN_KIND_ROW) return kernel->words.dtypes;
  return op->dispatch_input < 0
             ? ~(uint64_t)0
             : (uint64_t)1 << tn_dtype_index(kernel->loop.words.dtypes[op->dispatch_input]);
}

/* Checks the rules for replacing a kernel of the same key, backend, instruction set and dtypes: a
 * program that says TENON_OVERRIDE must replace one, and any other program must not. */
static bool may_override(tn_definition_t *b, const tenon_op_t *op, const tn_kernel_t *kernel) {
  const tn_kernel_t *k = op->kernels;
  /* A no_fallback item is not a kernel, so it replaces no kernel but only another such item. */
  uint32_t denies = kernel->words.flags & TN_KERNEL_NO_FALLBACK;
  while (k && ((k->words.flags & TN_KERNEL_NO_FALLBACK) != denies ||
               k->words.at != kernel->words.at || k->backend != kernel->backend ||
               k->words.isa != kernel->words.isa || dtypes_of(op, k) != dtypes_of(op, kernel)))
    k = k->next;
  if (k && b->override == TN_OVERRIDE_NEVER)
    tn_definition_offend(
        b, TENON_EXISTS,
        "%s: a kernel '%s' is there already, from library %s: say TENON_OVERRIDE to take its place",
        op->name, k->text, k->library->name);
  else if (!k && b->override == TN_OVERRIDE_MUST)
    tn_definition_offend(b, TENON_NOT_FOUND, "%s: '%s' overrides nothing: there is no such kernel",
                         op->name, kernel->text);
  else
    return true;
  return false;
}

/* Whether the item only puts the operator on one of autocast's lists, which needs no function. */
static bool is_cast(const tn_kernel_t *kernel) {
  const tn_kernel_words_t *w = &kernel->words;
  return w->at == TN_AT_AUTOCAST && (w->flags & TN_KERNEL_LOWER || w->dtypes != ~(uint64_t)0);
}

/* The facts about a kernel's words that decide which words may be combined. */
typedef struct claims_t {
  const tn_kernel_words_t *words;
  uint8_t kind;
  bool is_of_backend; /* rather than of a layer or a composite */
  bool is_of_cpu;
  bool is_composite;
  bool chooses; /* serves some dtypes only, or needs an instruction set */
  bool passes;  /* is a fallthrough */
  /* How many of the words fallthrough, fallback and no_fallback there are. */
  int host_runs;
} claims_t;

static claims_t claims_of(const tn_kernel_t *kernel) {
  const tn_kernel_words_t *w = &kernel->words;
  claims_t c = {.words = w, .kind = kernel->kind, .is_of_backend = w->at == TN_AT_BACKEND};
  c.is_of_cpu = c.is_of_backend && strcmp(w->device, "cpu") == 0;
  c.is_composite = w->at == TN_AT_EXPLICIT || w->at == TN_AT_COMPOSITE;
  c.chooses = w->isa || w->dtypes != ~(uint64_t)0;
  c.passes = w->flags & TN_KERNEL_FALLTHROUGH;
  c.host_runs = __builtin_popcount(
      w->flags & (TN_KERNEL_FALLTHROUGH | TN_KERNEL_FALLBACK | TN_KERNEL_NO_FALLBACK));
  return c;
}

static bool is_stub_elsewhere(const claims_t *c) {
  return c->kind == TN_KIND_STUB && (!c->is_of_backend || c->host_runs);
}

static bool is_lower(const claims_t *c) { return c->words->flags & TN_KERNEL_LOWER; }

static bool has_needs(const claims_t *c) { return c->words->flags & TN_KERNEL_NEEDS; }

static bool chooses_in_layer(const claims_t *c) {
  return !c->is_of_backend && (c->chooses || c->words->flags & TN_KERNEL_SERIAL);
}

static bool accumulates_elsewhere(const claims_t *c) {
  bool is_kernel = c->is_of_backend && c->kind == TN_KIND_DEVICE && !c->host_runs;
  return c->words->flags & TN_KERNEL_ACCUMULATES && !is_kernel;
}

static bool rows_elsewhere(const claims_t *c) {
  bool is_kernel = c->is_of_cpu && c->kind == TN_KIND_DEVICE && !c->host_runs;
  return c->words->flags & TN_KERNEL_ROWS && !is_kernel;
}

static bool passes_in_part(const claims_t *c) {
  return c->passes && (c->chooses || c->is_composite);
}

static bool is_of_devices_elsewhere(const claims_t *c) {
  const uint32_t of_devices = TN_KERNEL_FALLBACK | TN_KERNEL_NO_FALLBACK | TN_KERNEL_SCALARS;
  return c->words->flags & of_devices && (!c->is_of_backend || c->is_of_cpu);
}

static bool is_anywhere_elsewhere(const claims_t *c) {
  return c->words->flags & TN_KERNEL_ANYWHERE && !c->is_of_cpu;
}

static bool says_several(const claims_t *c) { return c->host_runs > 1; }

static bool denies_in_part(const claims_t *c) {
  return c->words->flags & TN_KERNEL_NO_FALLBACK && c->chooses;
}

static bool casts_on_backend(const claims_t *c) {
  return c->words->at == TN_AT_AUTOCAST && c->words->device;
}

/* Words that cannot be combined, or that stand in the wrong place. The first row that applies is
 * reported. Each message takes the operator's name and the kernel's words. */
static const struct {
  bool (*is_wrong)(const claims_t *c);
  tenon_status_t status;
  const char *message;
} places[] = {
    {is_stub_elsewhere, TENON_INVALID, "%s: stub '%s': stubs are of backends, and have functions"},
    {is_lower, TENON_INVALID, "%s: kernel '%s': lower is a word of 'autocast'"},
    {has_needs, TENON_INVALID, "%s: '%s': doubles, halves and wide_atomics are words of SOURCE"},
    {chooses_in_layer, TENON_INVALID,
     "%s: kernel '%s': only kernels of a backend have dtypes, an instruction set, or are serial"},
    {accumulates_elsewhere, TENON_INVALID, "%s: '%s': accumulates is a word of a backend's KERNEL"},
    {rows_elsewhere, TENON_INVALID, "%s: '%s': rows is a word of the CPU's KERNEL"},
    {passes_in_part, TENON_INVALID,
     "%s: kernel '%s': a fallthrough is of a backend or a layer, and of all its dtypes"},
    {is_of_devices_elsewhere, TENON_INVALID,
     "%s: kernel '%s': 'fallback', 'no_fallback' and 'scalars' are words for backends other than "
     "the CPU"},
    {is_anywhere_elsewhere, TENON_INVALID,
     "%s: kernel '%s': 'anywhere' says that a kernel of the CPU serves tensors of every device"},
    {says_several, TENON_INVALID,
     "%s: kernel '%s': only one of fallthrough, fallback and no_fallback"},
    {denies_in_part, TENON_INVALID, "%s: kernel '%s': a fallback is denied for all dtypes at once"},
    {casts_on_backend, TENON_UNIMPLEMENTED,
     "%s: kernel '%s': casts are the same on every backend: 'autocast'"},
};

/* Checks that the words are 'autocast lower', or 'autocast' and one float dtype. */
static bool cast_fits(tn_definition_t *b, const tenon_op_t *op, const tn_kernel_words_t *w,
                      const char *text) {
  uint64_t floats = tn_dtype_set("f16", 3) | tn_dtype_set("bf16", 4) | tn_dtype_set("f32", 3);
  bool has_none = w->dtypes == ~(uint64_t)0;
  bool has_one_float = !(w->dtypes & (w->dtypes - 1)) && !(w->dtypes & ~floats);
  bool says_one = !(w->flags & TN_KERNEL_LOWER) || has_none;
  bool says_more = w->isa || w->device || w->flags & ~(uint32_t)TN_KERNEL_LOWER;
  if ((has_none || has_one_float) && says_one && !says_more) return true;
  tn_definition_offend(
      b, TENON_INVALID,
      "%s: kernel '%s': expected 'autocast lower', or autocast and one of f16, bf16, f32", op->name,
      text);
  return false;
}

/* Checks that the kernel's words may be combined and have a meaning at its key. Some words only
 * matter where calls choose among kernels, which layers and composites do not. */
static bool fits_place(tn_definition_t *b, const tenon_op_t *op, const tn_kernel_t *kernel,
                       const char *text) {
  claims_t claims = claims_of(kernel);
  if (is_cast(kernel) && kernel->kind != TN_KIND_STUB)
    return cast_fits(b, op, &kernel->words, text);
  for (size_t i = 0; i < sizeof places / sizeof *places; i++) {
    if (!places[i].is_wrong(&claims)) continue;
    tn_definition_offend(b, places[i].status, places[i].message, op->name, text);
    return false;
  }
  return true;
}

/* Stubs and loops are the inner work of an operator; the host does the rest. */
void tn_definition_check_stub(tn_definition_t *b, const tenon_op_t *op, const tn_kernel_t *kernel) {
  if (kernel->kind == TN_KIND_LOOP && op->reduces.text)
    tn_definition_offend(
        b, TENON_INVALID,
        "%s: loop '%s': loops are of pointwise operators, and this one is a reduction", op->name,
        kernel->text);
  if (kernel->kind != TN_KIND_STUB || tn_op_has_stub(op)) return;
  tn_text_t others = {0};
  b->name_stubs(op->name, &others);
  tn_definition_offend(
      b, TENON_INVALID,
      "%s: '%s': it has no stub, which only pointwise operators and reductions without lists have: "
      "expected KERNEL, or one of those that have: %s",
      op->name, kernel->text, tn_text_get(&others));
  tn_text_clear(&others);
}

static uint64_t kernel_numbers; /* guarded by the registry's mutex */

/* Lists show a stub of "npu f32" as "npu stub f32". */
static void name_stub(char *out_text, size_t capacity, const char *where) {
  where += strspn(where, " \t\n");
  int device = (int)strcspn(where, " \t\n");
  snprintf(out_text, capacity, "%.*s stub%s", device, where, where + device);
}

static void make_composite(tn_kernel_t *kernel) {
  kernel->kind = TN_KIND_COMPOSITE;
  /* The operators that a composite calls handle strides and quantised tensors themselves. */
  kernel->words.flags |= TN_KERNEL_STRIDED | TN_KERNEL_QUANTISED;
}

/* The words that a SOURCE kernel may have. */
static const uint32_t SOURCE_WORDS = TN_KERNEL_STRIDED | TN_KERNEL_SERIAL | TN_KERNEL_SCALARS |
                                     TN_KERNEL_CAPTURABLE | TN_KERNEL_NEEDS;

/* Reads the kind, the function and the words of a kernel, and writes the text that lists show for
 * it. */
static bool read_words(tn_definition_t *b, const tenon_op_t *op, const tenon_item_t *item,
                       tn_kernel_t *kernel, char *out_text, size_t capacity) {
  tn_arena_t *arena = &b->library->arena;
  const char *words = item->text ? item->text : "";
  const uint32_t tag = item->tag & ~TENON_MUST;
  bool good = true;
  switch (tag) {
  case TENON_TAG_STUB:
    kernel->kind = TN_KIND_STUB;
    kernel->run = tn_stub_run;
    kernel->stub = (tenon_stub_fn)item->function;
    good = tn_definition_check(b, tn_kernel_parse(words, arena, &kernel->words));
    if (good) good = fits_place(b, op, kernel, words);
    name_stub(out_text, capacity, words);
    break;
  case TENON_TAG_KERNEL:
    kernel->kind = TN_KIND_DEVICE;
    kernel->run = (tenon_run_fn)item->function;
    good = tn_definition_check(b, tn_kernel_parse(words, arena, &kernel->words));
    if (good) good = fits_place(b, op, kernel, words);
    if (kernel->words.at == TN_AT_EXPLICIT || kernel->words.at == TN_AT_COMPOSITE)
      make_composite(kernel);
    snprintf(out_text, capacity, "%s", words);
    break;
  case TENON_TAG_SOURCE: /* the parser expects a device first: "source" stands in for it */
    kernel->kind = TN_KIND_SOURCE;
    kernel->run = (tenon_run_fn)item->function;
    snprintf(out_text, capacity, "source %s", words);
    good = tn_definition_check(b, tn_kernel_parse(out_text, arena, &kernel->words));
    if (good && kernel->words.at == TN_AT_BACKEND && !(kernel->words.flags & ~SOURCE_WORDS))
      kernel->words.device = NULL;
    else if (good) {
      tn_definition_offend(b, TENON_INVALID,
                           "%s: SOURCE '%s': expected dtypes, an instruction set, strided, serial, "
                           "scalars, capturable, doubles, halves, wide_atomics",
                           op->name, words);
      good = false;
    }
    break;
  case TENON_TAG_COMPOSITE:
    kernel->run = (tenon_run_fn)item->function;
    kernel->words.at = TN_AT_COMPOSITE;
    kernel->words.device = NULL;
    make_composite(kernel);
    snprintf(out_text, capacity, "composite");
    break;
  default: /* the driver of rows reads dense memory, whatever the words say */
    kernel->kind = tag == TENON_TAG_LOOP ? TN_KIND_LOOP : TN_KIND_ROW;
    kernel->run = tag == TENON_TAG_LOOP ? tn_loop_run : tn_row_run;
    kernel->loop.function = (tenon_loop_fn)item->function;
    good = tn_definition_check(b, tn_loop_parse(words, &op->schema, arena, &kernel->loop.words));
    kernel->words.isa = kernel->loop.words.isa;
    if (good && tag == TENON_TAG_LOOP && kernel->loop.words.flags & TN_KERNEL_STRIDED)
      kernel->words.flags |= TN_KERNEL_STRIDED;
    snprintf(out_text, capacity, "cpu %s %s", tag == TENON_TAG_LOOP ? "loop" : "row", words);
  }
  return good;
}

/* The name, without TENON_, of the macro that states a kernel with this tag. */
static const char *kernel_macro(uint32_t tag) {
  switch (tag) {
  case TENON_TAG_KERNEL:
    return "KERNEL";
  case TENON_TAG_STUB:
    return "STUB";
  case TENON_TAG_LOOP:
    return "LOOP";
  case TENON_TAG_ROW:
    return "ROW";
  case TENON_TAG_SOURCE:
    return "SOURCE";
  default:
    return "COMPOSITE";
  }
}

/* Checks that a kernel has a function, unless its words say that calls run the host's own function
 * or none. */
static bool check_function(tn_definition_t *b, const tenon_op_t *op, const tenon_item_t *item,
                           const tn_kernel_t *kernel) {
  const char *kind = kernel_macro(item->tag & ~TENON_MUST);
  const char *text = item->text ? (const char *)item->text : "";
  const uint32_t marker =
      kernel->words.flags & (TN_KERNEL_FALLTHROUGH | TN_KERNEL_FALLBACK | TN_KERNEL_NO_FALLBACK);
  if (!item->function == (marker != 0 || is_cast(kernel))) return true;
  const char *why = "has no function";
  if (marker == TN_KERNEL_FALLTHROUGH || is_cast(kernel))
    why = "passes calls by and has no function of its own";
  else if (marker)
    why = "is the host's and has no function of its own";
  tn_definition_offend(b, TENON_INVALID, "%s: %s '%s' %s", op->name, kind, text, why);
  return false;
}

void tn_definition_add_kernel(tn_definition_t *b, const tenon_item_t *item) {
  tenon_op_t *op = tn_definition_target(b);
  /* The end of this function clears the mark when the kernel was added. */
  if (b->op) b->drafts[b->count - 1].texts.has_bad_kernel = true;
  tn_arena_t *arena = &b->library->arena;
  tn_kernel_t *kernel = tn_definition_room(b, arena, sizeof *kernel);
  if (!kernel) return;
  *kernel = (tn_kernel_t){.context = b->library->context,
                          .library = b->library,
                          .prepare = b->kernel_prepare,
                          .release = b->kernel_release,
                          .number = ++kernel_numbers,
                          .words = {.device = "cpu", .dtypes = ~(uint64_t)0}};
  char text[256];
  bool good = read_words(b, op, item, kernel, text, sizeof text);
  kernel->text = tn_definition_text(b, arena, text);
  if (is_cast(kernel) && !item->function) kernel->run = tn_table_run(TN_RUN_AUTOCAST_LISTED);
  if (good && !check_function(b, op, item, kernel)) return;
  /* A program may also register tenon_fallback_cpu as the kernel's function. */
  if (kernel->words.flags & TN_KERNEL_FALLBACK)
    kernel->run = tn_table_run(TN_RUN_FALLBACK_CPU);
  else if (kernel->run == tn_table_run(TN_RUN_FALLBACK_CPU))
    kernel->words.flags |= TN_KERNEL_FALLBACK;
  /* The fallback keeps strides and details, so calls need not prepare their tensors for it. */
  if (kernel->words.flags & (TN_KERNEL_FALLBACK | TN_KERNEL_NO_FALLBACK))
    kernel->words.flags |= TN_KERNEL_STRIDED | TN_KERNEL_QUANTISED;
  tn_backend_t *backend = NULL;
  if (good && kernel->words.device)
    good = tn_definition_check(b, tn_backend_intern(kernel->words.device, &backend));
  kernel->backend = backend;
  if (!good || (b->extension && !may_override(b, op, kernel))) return;
  if (b->extension) {
    kernel->next = b->extension->first;
    b->extension->first = kernel;
    if (!b->extension->last) b->extension->last = kernel;
  } else {
    kernel->next = op->kernels;
    op->kernels = kernel;
    b->drafts[b->count - 1].texts.has_bad_kernel = false;
  }
}
