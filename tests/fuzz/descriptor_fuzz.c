/* Descriptors of libraries. The first line of a file has the library's name and version. Each
 * further line is an item: its tag, an optional number after '#', and its text after ':'; '-'
 * before the ':' omits its function. Any such descriptor is registered as a whole and shown, or
 * refused with a message and without leaving anything behind. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "faults.h"
#include "registered.h"

enum { ITEMS = 200 };
int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size);

static tenon_status_t infer(tenon_infer_t *call) {
  (void)call;
  return TENON_OK;
}
static tenon_status_t run(tenon_call_t *call) {
  (void)call;
  return TENON_OK;
}
static tenon_status_t loop(const tenon_loop_t *call) {
  (void)call;
  return TENON_OK;
}
static tenon_status_t node(tenon_node_t *call) {
  (void)call;
  return TENON_OK;
}
static void drop(void *state) { (void)state; }

static tenon_any_fn function_of(uint32_t tag) {
  switch (tag & ~TENON_MUST) {
  case TENON_TAG_INFER:
    return (tenon_any_fn)infer;
  case TENON_TAG_VALIDATE:
  case TENON_TAG_CREATE:
  case TENON_TAG_PREPARE:
  case TENON_TAG_OPEN:
    return (tenon_any_fn)node;
  case TENON_TAG_DESTROY:
  case TENON_TAG_RELEASE:
  case TENON_TAG_CLOSE:
    return (tenon_any_fn)drop;
  case TENON_TAG_LOOP:
  case TENON_TAG_ROW:
    return (tenon_any_fn)loop;
  case TENON_TAG_KERNEL:
  case TENON_TAG_COMPOSITE:
  case TENON_TAG_STUB:
  case TENON_TAG_REFERENCE:
  case TENON_TAG_SOURCE:
    return (tenon_any_fn)run;
  default:
    return NULL;
  }
}

/* Returns false if the tag's text is a table and not a text; what a library writes cannot damage a
 * table. */
static bool read_item(char *line, tenon_item_t *item) {
  char *text = strchr(line, ':');
  char *at = line;
  *item = (tenon_item_t){.tag = (uint32_t)strtoul(line, &at, 0)};
  uint32_t tag = item->tag & ~TENON_MUST;
  if (tag == TENON_TAG_END || tag == TENON_TAG_GROUP ||
      (tag >= TENON_TAG_DEVICE && tag <= TENON_TAG_PARTITIONER))
    return false;
  if (*at == '#') item->number = strtoll(at + 1, &at, 0);
  if (*at != '-') item->function = function_of(item->tag);
  if (text) item->text = text + 1;
  return true;
}

int LLVMFuzzerTestOneInput(const unsigned char *data, size_t size) {
  static int32_t before;
  static tenon_item_t items[ITEMS + 1];
  tenon_library_t *library = NULL;
  tenon_descriptor_t descriptor = {
      .size = sizeof descriptor, .abi = TENON_ABI, .layout = TENON_LAYOUT, .items = items};
  size_t count = 0;
  if (!before && (tenon_start() != TENON_OK || (before = count_ops()) == 0)) abort();
  if (size > 1 << 14 || memchr(data, 0, size)) return 0;
  char *lines = malloc(size + 1);
  if (!lines) return 0;
  memcpy(lines, data, size);
  lines[size] = 0;
  char *next = strchr(lines, '\n');
  if (next) *next++ = 0;
  char *version = strchr(lines, ' ');
  if (version) *version++ = 0;
  descriptor.name = lines;
  descriptor.version = version;
  memset(items, 0, sizeof items);
  for (char *line = next; line && *line && count < ITEMS; line = next) {
    if ((next = strchr(line, '\n'))) *next++ = 0;
    count += read_item(line, &items[count]);
  }
  items[count] = (tenon_item_t){0};
  fault_limit((int64_t)256 << 20);
  tenon_status_t status = tenon_library_add(&descriptor, NULL, NULL, &library);
  fault_limit(0);
  if (status == TENON_INTERNAL) wrong("an internal error");
  if (status != TENON_OK && !*tenon_error()) wrong("a failure without a message");
  if ((status == TENON_OK) != (library != NULL)) wrong("a status that does not fit the result");
  if (library) look(library);
  tenon_library_release(library);
  /* A linked-in library stays until shutdown. */
  if (library) tenon_shutdown();
  if (count_ops() != before) wrong("operators came or went");
  free(lines);
  return 0;
}
