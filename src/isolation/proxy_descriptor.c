/* Builds the descriptor of an isolated library for this process from the description that its
 * worker process sent. Texts are copied and parsed as those of any library. Every operator with a
 * kernel for the CPU gets one kernel that forwards the call. */
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "base/status.h"
#include "base/text.h"
#include "isolation/message.h"
#include "isolation/proxy.h"

enum { TAG_NOTHING = 0x3fffffff /* an item that is ignored */ };

typedef struct builder_t {
  tn_proxy_t *proxy;
  tn_wire_t wire;
  tenon_item_t *items;
  size_t count;
  size_t capacity;
  tn_text_t problems;
  /* Index of the item reserved for the kernel of the current operator; 0: none is reserved. */
  size_t kernel_at;
  bool has_kernel;
  bool has_shapes;
  bool is_extension;
  char name[TN_NAME_SIZE]; /* of the current operator */
  bool failed;             /* out of memory */
} builder_t;

static void add_problem(builder_t *b, const char *format, ...) TENON_FORMAT(2, 3);
static void add_problem(builder_t *b, const char *format, ...) {
  va_list arguments;
  va_start(arguments, format);
  tn_text_add(&b->problems, "%s", b->problems.size ? "; " : "");
  tn_text_list(&b->problems, format, arguments);
  va_end(arguments);
}

static const char *keep_text(builder_t *b, const char *text) {
  if (!text) return NULL;
  const char *copy = tn_arena_text(&b->proxy->arena, text, strlen(text));
  b->failed |= !copy;
  return copy;
}

static void append_item(builder_t *b, uint32_t tag, int64_t number, const char *text,
                        tenon_any_fn function) {
  if (b->count == b->capacity) {
    const size_t capacity = b->capacity ? 2 * b->capacity : 256;
    tenon_item_t *items = tn_arena_array(&b->proxy->arena, capacity, sizeof *items);
    if (!items) {
      b->failed = true;
      return;
    }
    if (b->count) memcpy(items, b->items, b->count * sizeof *items);
    b->items = items;
    b->capacity = capacity;
  }
  b->items[b->count++] = (tenon_item_t){tag, 0, number, keep_text(b, text), function};
}

static void begin_operator(builder_t *b, uint32_t tag, const char *text, const char *library) {
  tn_operator_name(text, library, b->name);
  if (tag == TENON_TAG_EXTEND && !(b->proxy->client->wanted.allow & TENON_ALLOW_EXTEND))
    add_problem(b,
                "it adds kernels to %.200s, an operator of another library: load it with "
                "TENON_ALLOW_EXTEND if it may",
                b->name);
  append_item(b, tag, 0, text, NULL);
  append_item(b, TAG_NOTHING, 0, NULL, NULL); /* reserved: becomes the kernel */
  b->kernel_at = b->count - 1;
  b->has_kernel = b->has_shapes = false;
  b->is_extension = tag == TENON_TAG_EXTEND;
  const uintptr_t number = ++b->proxy->op_count;
  /* The library extends an operator of its own. */
  if (tn_map_get(&b->proxy->names, b->name, strlen(b->name))) return;
  if (!tn_map_put(&b->proxy->names, b->name, strlen(b->name), (void *)number)) b->failed = true;
}

static void end_operator(builder_t *b) {
  if (!b->kernel_at || !b->has_kernel || b->is_extension || b->failed) return;
  tenon_item_t *item = &b->items[b->kernel_at];
  *item = (tenon_item_t){TENON_TAG_KERNEL, 0, 0, b->has_shapes ? "cpu" : "composite_explicit",
                         (tenon_any_fn)tn_proxy_run};
}

static bool begins_with(const char *text, const char *word) {
  text += strspn(text, " \t\n");
  const size_t size = strlen(word);
  return !strncmp(text, word, size) && (!text[size] || strchr(" \t\n", text[size]));
}

/* Keeps the words of a kernel that decide when it is chosen. The dropped words describe the
 * arguments that a kernel accepts, which matters only inside the worker process. */
static void add_extension(builder_t *b, const char *text) {
  static const char *const dropped[] = {"strided", "serial",     "accumulates", "quantised",
                                        "sparse",  "capturable", "anywhere",    "rows"};
  char words[256] = "";
  for (const char *at = text + strspn(text, " \t\n"); *at; at += strspn(at, " \t\n")) {
    const size_t size = strcspn(at, " \t\n");
    bool drops = false;
    for (size_t i = 0; i < sizeof dropped / sizeof *dropped; i++)
      drops |= begins_with(at, dropped[i]);
    if (!drops && strlen(words) + size + 2 < sizeof words) {
      strncat(words, at, size);
      strcat(words, " ");
    }
    at += size;
  }
  append_item(b, TENON_TAG_KERNEL, 0, words, (tenon_any_fn)tn_proxy_run);
}

static void add_kernel(builder_t *b, uint32_t tag, const char *text, bool has_function) {
  const char *words = text ? text : "";
  /* A kernel without a function only changes the resolution, as a fallback does. The host handles
   * it itself. */
  if (!has_function) {
    append_item(b, tag, 0, text, NULL);
    return;
  }
  const bool is_cpu = (tag != TENON_TAG_KERNEL && tag != TENON_TAG_STUB) ||
                      begins_with(words, "cpu") || begins_with(words, "composite") ||
                      begins_with(words, "composite_explicit");
  static const char *const layers[] = {"autograd", "autocast", "view", "functional"};
  for (size_t i = 0; i < sizeof layers / sizeof *layers; i++)
    if (begins_with(words, layers[i]))
      add_problem(
          b,
          "%.200s has a kernel '%.40s', which would have to run inside the calls of this process",
          b->name, words);
  /* A kernel of another backend stays in the worker process, where no such device exists. */
  if (!is_cpu) return;
  b->has_kernel = true;
  if (!b->is_extension) return;
  if (tag == TENON_TAG_KERNEL && begins_with(words, "cpu"))
    add_extension(b, words);
  else
    add_problem(b, "it adds to %.200s something other than a KERNEL for the CPU", b->name);
}

/* Keeps the known traits but TENON_BRIEF, because a call of an isolated operator can wait until its
 * deadline, and the count of random numbers in the upper half. */
static void add_traits(builder_t *b, uint32_t tag, int64_t number) {
  const uint64_t kept = UINT64_C(0xffffffff00000000) | TENON_PURE | TENON_POINTWISE | TENON_RANDOM;
  b->has_shapes |= (number & TENON_POINTWISE) != 0;
  append_item(b, tag, (int64_t)((uint64_t)number & kept), NULL, NULL);
}

/* Passes on an item whose text is a text. Nothing is known about an item of a newer contract, so
 * neither its text nor its function can be used. The registry refuses it if the library needs
 * it. */
static void add_text(builder_t *b, uint32_t tag, int64_t number, const char *text) {
  static const uint32_t texts[] = {TENON_TAG_DOC,      TENON_TAG_TYPES,    TENON_TAG_WHERE,
                                   TENON_TAG_GRADIENT, TENON_TAG_BATCHING, TENON_TAG_SHARDING,
                                   TENON_TAG_REUSE,    TENON_TAG_VERSION,  TENON_TAG_UPGRADE,
                                   TENON_TAG_ABOUT,    TENON_TAG_REDUCES,  TENON_TAG_SAMPLES};
  bool is_text = false;
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    is_text |= (tag & ~TENON_MUST) == texts[i];
  if (is_text || tag & TENON_MUST) append_item(b, tag, number, is_text ? text : NULL, NULL);
}

static void add_item(builder_t *b, uint32_t tag, int64_t number, const char *text,
                     bool has_function) {
  switch (tag & ~TENON_MUST) {
  case TENON_TAG_SHAPES:
    b->has_shapes = true;
    append_item(b, tag, number, text, NULL);
    break;
  case TENON_TAG_TRAITS:
    add_traits(b, tag, number);
    break;
  case TENON_TAG_INFER:
    b->has_shapes = true;
    append_item(b, tag, 0, NULL, (tenon_any_fn)tn_proxy_infer);
    break;
  case TENON_TAG_VALIDATE:
    append_item(b, tag, 0, NULL, (tenon_any_fn)tn_proxy_validate);
    break;
  case TENON_TAG_CREATE:
    append_item(b, tag, 0, NULL, (tenon_any_fn)tn_proxy_create);
    break;
  case TENON_TAG_DESTROY:
    append_item(b, tag, 0, NULL, (tenon_any_fn)tn_proxy_destroy);
    break;
  case TENON_TAG_KERNEL:
  case TENON_TAG_COMPOSITE:
  case TENON_TAG_LOOP:
  case TENON_TAG_ROW:
  case TENON_TAG_SOURCE:
  case TENON_TAG_STUB:
    add_kernel(b, tag & ~TENON_MUST, text, has_function);
    break;
  case TENON_TAG_SUBGRAPH:
    add_problem(b, "the body of %.200s is a graph", b->name);
    break;
  case TENON_TAG_DEVICE:
    add_problem(b, "it is a device");
    break;
  case TENON_TAG_BRIDGE:
    add_problem(b, "it is a bridge");
    break;
  case TENON_TAG_PASS:
  case TENON_TAG_PARTITIONER:
  case TENON_TAG_REWRITE: /* it would change graphs that do not use the library */
    add_problem(b, "it has graph passes, rewriting rules or a partitioner");
    break;
  case TENON_TAG_USES:    /* resolved in the worker process */
  case TENON_TAG_PREPARE: /* kernels run without a plan, as in eager calls */
  case TENON_TAG_RELEASE:
  case TENON_TAG_REFERENCE:
  case TENON_TAG_OPEN: /* called in the worker process */
  case TENON_TAG_CLOSE:
    break;
  case TENON_TAG_GROUP: /* the worker process sends the items of a group one by one */
    add_problem(b, "its description has a group, which is an address and not a text");
    break;
  default:
    add_text(b, tag, number, text);
  }
}

static tenon_status_t finish_descriptor(builder_t *b) {
  tn_proxy_t *proxy = b->proxy;
  uint32_t capacity = 64;
  while (capacity < 4 * proxy->op_count)
    capacity *= 2;
  proxy->known_capacity = capacity;
  proxy->known = tn_arena_array(&proxy->arena, capacity, sizeof *proxy->known);
  proxy->descriptor.items = b->items;
  if (!proxy->known || b->failed)
    return tn_no_memory("an isolated library", b->count * sizeof *b->items);
  if (!b->problems.size) return TENON_OK;
  return tn_fail(TENON_UNIMPLEMENTED, "it cannot be isolated: %s", tn_text_get(&b->problems));
}

tenon_status_t tn_proxy_describe(tn_proxy_t *proxy) {
  tn_client_t *client = proxy->client;
  builder_t b = {.proxy = proxy, .wire = tn_wire(client->description, client->description_size)};
  const char *name = tn_get_text(&b.wire);
  const char *version = tn_get_text(&b.wire);
  if (!name) name = "";
  if (!version) version = "";
  proxy->descriptor = (tenon_descriptor_t){
      sizeof proxy->descriptor, TENON_ABI, TENON_LAYOUT, 0, keep_text(&b, name),
      keep_text(&b, version),   NULL};
  for (;;) {
    const uint32_t tag = (uint32_t)tn_get(&b.wire);
    if (tag == TENON_TAG_END) break;
    const int64_t number = (int64_t)tn_get(&b.wire);
    const bool has_function = tn_get(&b.wire);
    const char *text = tn_get_text(&b.wire);
    if (b.wire.failed) break;
    const uint32_t plain = tag & ~TENON_MUST;
    if (plain != TENON_TAG_OP && plain != TENON_TAG_EXTEND) {
      add_item(&b, tag, number, text, has_function);
      continue;
    }
    end_operator(&b);
    begin_operator(&b, tag, text ? text : "", proxy->descriptor.name);
  }
  end_operator(&b);
  append_item(&b, TENON_TAG_END, 0, NULL, NULL);
  tenon_status_t status = TENON_OK;
  if (b.wire.failed || b.wire.at != b.wire.size)
    status = tn_fail(TENON_INTERNAL, "the description from its isolated process is malformed");
  else
    status = finish_descriptor(&b);
  tn_text_clear(&b.problems);
  return status;
}

tenon_status_t tn_proxy_number(tn_proxy_t *proxy, const tenon_op_t *op, uint32_t *out_number) {
  const uint32_t mask = proxy->known_capacity - 1;
  uint32_t at = (uint32_t)((uintptr_t)op >> 6) & mask;
  for (const tenon_op_t *found; (found = __atomic_load_n(&proxy->known[at].op, __ATOMIC_ACQUIRE));
       at = (at + 1) & mask)
    if (found == op) {
      *out_number = proxy->known[at].number;
      return TENON_OK;
    }
  const uintptr_t number = (uintptr_t)tn_map_get(&proxy->names, op->name, strlen(op->name));
  if (!number)
    return tn_fail(TENON_NOT_FOUND, "%s: the isolated library does not have this operator",
                   op->name);
  *out_number = (uint32_t)number - 1;
  tn_mutex_lock(&proxy->lock);
  uint32_t used = 0;
  for (uint32_t i = 0; i <= mask; i++)
    used += proxy->known[i].op != NULL;
  for (at = (uint32_t)((uintptr_t)op >> 6) & mask;
       proxy->known[at].op && proxy->known[at].op != op;)
    at = (at + 1) & mask;
  if (!proxy->known[at].op && used < proxy->known_capacity / 2) {
    proxy->known[at].number = *out_number;
    __atomic_store_n(&proxy->known[at].op, op, __ATOMIC_RELEASE);
  }
  tn_mutex_unlock(&proxy->lock);
  return TENON_OK;
}
