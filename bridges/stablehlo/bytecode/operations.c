/* Operations, regions, functions and the module of MLIR bytecode. Called by model.c. Invariant: an
 * operand is a value whose definition comes before and whose region is open; `slots` holds exactly
 * these values at their numbers, and NULL elsewhere. */
#include <string.h>

#include "bytecode/attributes.h"
#include "bytecode/bytecode.h"
#include "bytecode/properties.h"
#include "bytecode/sections.h"
#include "bytecode/types.h"
#include "bytecode/upgrade.h"
#include "parse/parse.h"

enum { /* What an operation has, as bits. */
       HAS_ATTRS = 1,
       HAS_RESULTS = 2,
       HAS_OPERANDS = 4,
       HAS_SUCCESSORS = 8,
       HAS_REGIONS = 16,
       HAS_USE_ORDERS = 32,
       HAS_PROPERTIES = 64,
};

typedef struct reading_t {
  hlo_value_t **slots; /* The values of all open regions. */
  size_t capacity;
  size_t origin;       /* Where the numbers of the innermost isolated region begin. */
  size_t next;         /* The slot of the next value of the innermost region. */
  size_t end;          /* After the slots of the innermost region. */
  int32_t level;       /* Open regions of the function. */
  int32_t value_count; /* Of the function. */
} reading_t;

typedef struct head_t { /* An operation whose regions are not read yet. */
  hlo_op_t *op;
  size_t region_count;
  size_t first_slot; /* Of its results. */
  bool is_isolated;  /* Its regions use no values from around it. */
} head_t;

/* values */

static hlo_value_t *make_value(bc_part_t *part, reading_t *reading, const hlo_type_t *type,
                               hlo_op_t *op, int32_t result) {
  hlo_value_t *value = bc_take(part, 1, sizeof *value);
  if (reading->value_count == HLO_VALUES_MAX)
    bc_fail(part, "a function has more than %d values, which is not supported", HLO_VALUES_MAX);
  if (!value) return NULL;
  *value = (hlo_value_t){.name = "",
                         .type = type,
                         .op = op,
                         .index = reading->value_count++,
                         .result = result,
                         .depth = reading->level};
  return value;
}

/* Takes `count` slots of the region for the values that come next. */
static size_t take_slots(bc_part_t *part, reading_t *reading, size_t count) {
  size_t first = reading->next;
  if (count > reading->end - first)
    bc_fail(part, "a region defines more values than it states: the file is damaged");
  if (bc_failed(part)) return first;
  reading->next += count;
  if (reading->next <= reading->capacity) return first;
  size_t capacity = 2 * reading->next + 64;
  hlo_value_t **slots = bc_take(part, capacity, sizeof *slots);
  if (!slots) return first;
  if (reading->capacity) memcpy(slots, reading->slots, reading->capacity * sizeof *slots);
  reading->slots = slots;
  reading->capacity = capacity;
  return first;
}

static hlo_value_t *find_operand(bc_part_t *part, const reading_t *reading, uint64_t number) {
  hlo_value_t *value = NULL;
  if (number < reading->end - reading->origin && reading->origin + number < reading->capacity)
    value = reading->slots[reading->origin + number];
  if (!value)
    bc_fail(part, "value %llu is used, but no operation before defines it: the file is damaged",
            (unsigned long long)number);
  return value;
}

/* the parts of an operation */

static void read_op_attrs(bc_part_t *part, const bc_op_name_t *name, uint8_t mask, hlo_op_t *op) {
  const hlo_attr_t *dict = mask & HAS_ATTRS ? bc_attr(part) : NULL;
  hlo_attr_t own = {.kind = HLO_ATTR_DICT};
  if (mask & HAS_PROPERTIES) bc_read_properties(part, name, bc_number(part), &own);
  if (dict && dict->kind != HLO_ATTR_DICT)
    bc_fail(part, "the attributes of %.80s are no dictionary: the file is damaged", name->text);
  op->attrs = own;
  if (dict && own.count && !bc_failed(part)) {
    size_t count = (size_t)own.count + (size_t)dict->count;
    const char **names = bc_take(part, count, sizeof *names);
    hlo_attr_t *items = bc_take(part, count, sizeof *items);
    for (size_t i = 0; i < count && !bc_failed(part); i++) {
      bool is_own = i < (size_t)own.count;
      names[i] = is_own ? own.names[i] : dict->names[i - (size_t)own.count];
      items[i] = is_own ? own.items[i] : dict->items[i - (size_t)own.count];
    }
    op->attrs.names = names;
    op->attrs.items = items;
    op->attrs.count = bc_failed(part) ? 0 : (int32_t)count;
  } else if (dict && !own.count) {
    op->attrs = *dict;
  }
  op->attrs.at = op->at;
}

static void read_op_results(bc_part_t *part, reading_t *reading, head_t *head) {
  hlo_op_t *op = head->op;
  size_t count = bc_count(part, "results");
  op->results = bc_take(part, count, sizeof *op->results);
  head->first_slot = take_slots(part, reading, count);
  for (size_t i = 0; i < count && !bc_failed(part); i++) {
    const hlo_type_t *type = bc_value_type(part, bc_number(part));
    op->results[i] = make_value(part, reading, type, op, (int32_t)i);
  }
  op->result_count = bc_failed(part) ? 0 : (int32_t)count;
}

static void read_op_operands(bc_part_t *part, const reading_t *reading, hlo_op_t *op) {
  size_t count = bc_count(part, "operands");
  op->operands = bc_take(part, count, sizeof *op->operands);
  for (size_t i = 0; i < count && !bc_failed(part); i++)
    op->operands[i] = find_operand(part, reading, bc_number(part));
  op->operand_count = bc_failed(part) ? 0 : (int32_t)count;
}

/* Skips the orders of the uses of values, which have no meaning for a result. */
static void skip_use_orders(bc_part_t *part, size_t value_count) {
  bool is_paired;
  size_t count = value_count > 1 ? bc_count(part, "orders of uses") : 1;
  for (size_t i = 0; i < count && !bc_failed(part); i++) {
    if (value_count > 1) (void)bc_number(part);
    size_t indices = bc_check_count(part, bc_flagged(part, &is_paired), "uses");
    for (size_t k = 0; k < indices && !bc_failed(part); k++)
      (void)bc_number(part);
  }
}

/* Reads an operation up to its regions. */
static head_t read_op_head(bc_part_t *part, reading_t *reading) {
  bc_file_t *file = part->file;
  head_t head = {.op = bc_take(part, 1, sizeof(hlo_op_t))};
  hlo_op_t *op = head.op;
  if (!op) return head;
  op->at = (const char *)part->at;
  size_t number = bc_index(part, file->op_name_count, "the name of an operation");
  uint8_t mask = bc_byte(part);
  (void)bc_number(part); /* The location. */
  if (bc_failed(part)) return head;
  bc_op_name_t *name = &file->op_names[number];
  if (!name->upgraded) name->upgraded = bc_upgraded_name(part, name->text);
  op->name = name->upgraded;
  if (mask & HAS_PROPERTIES && file->version < 5)
    bc_fail(part, "an operation has properties in version %d of the format: the file is damaged",
            (int)file->version);
  read_op_attrs(part, name, mask, op);
  head.first_slot = reading->next;
  if (mask & HAS_RESULTS) read_op_results(part, reading, &head);
  if (mask & HAS_OPERANDS) read_op_operands(part, reading, op);
  if (mask & HAS_SUCCESSORS) bc_fail(part, "an operation with successors is not supported");
  if (mask & HAS_USE_ORDERS && file->version >= 3) skip_use_orders(part, (size_t)op->result_count);
  if (mask & HAS_REGIONS)
    head.region_count = bc_check_count(part, bc_flagged(part, &head.is_isolated), "regions");
  if (strncmp(name->text, "vhlo.", 5) == 0 && !bc_failed(part)) bc_upgrade(part, op);
  return head;
}

/* Makes the results of an operation known to those that follow. */
static void show_results(bc_part_t *part, reading_t *reading, const head_t *head) {
  for (int32_t i = 0; i < head->op->result_count && !bc_failed(part); i++)
    reading->slots[head->first_slot + (size_t)i] = head->op->results[i];
}

/* regions */

static void read_block_arguments(bc_part_t *part, reading_t *reading, hlo_region_t *region,
                                 const char ***out_names) {
  bc_file_t *file = part->file;
  size_t count = bc_count(part, "arguments");
  size_t slot = take_slots(part, reading, count);
  const char **names = bc_take(part, count, sizeof *names);
  region->args = bc_take(part, count, sizeof *region->args);
  for (size_t i = 0; i < count && !bc_failed(part); i++) {
    bool has_location = true;
    uint64_t number = file->version < 4 ? bc_number(part) : bc_flagged(part, &has_location);
    const hlo_type_t *type = bc_value_type(part, number);
    if (has_location) names[i] = bc_location_name(part, bc_number(part));
    region->args[i] = make_value(part, reading, type, NULL, (int32_t)i);
    if (!bc_failed(part)) reading->slots[slot + i] = region->args[i];
  }
  region->arg_count = bc_failed(part) ? 0 : (int32_t)count;
  if (out_names) *out_names = names;
  if (file->version >= 3 && bc_byte(part)) skip_use_orders(part, count);
}

static void read_nested_op(bc_part_t *part, reading_t *reading, hlo_region_t *region);

/* Reads the head of a block: how many operations it has, and its arguments. */
static size_t read_block_head(bc_part_t *part, reading_t *reading, hlo_region_t *region,
                              const char ***out_names) {
  bool has_arguments = false;
  uint64_t count = bc_flagged(part, &has_arguments);
  if (has_arguments) read_block_arguments(part, reading, region, out_names);
  return bc_check_count(part, count, "operations");
}

typedef void (*read_each_t)(bc_part_t *part, reading_t *reading, hlo_region_t *region);

/* Reads a region, each of its operations by `each`. */
static void read_open_region(bc_part_t *part, reading_t *reading, hlo_region_t *region,
                             const char ***out_names, read_each_t each) {
  uint64_t blocks = bc_number(part);
  region->depth = reading->level;
  if (blocks > 1) bc_fail(part, "a region with several blocks is not supported");
  if (!blocks || bc_failed(part)) return;
  size_t begin = reading->end;
  uint64_t count = bc_number(part);
  if (count > (size_t)(part->file->end - part->file->begin) - begin)
    bc_fail(part, "a region of %llu values is not in this file: the file is damaged",
            (unsigned long long)count);
  if (bc_failed(part)) return;
  reading->next = begin;
  reading->end = begin + (size_t)count;
  size_t operations = read_block_head(part, reading, region, out_names);
  for (size_t i = 0; i < operations && !bc_failed(part); i++)
    each(part, reading, region);
  for (size_t i = begin; i < reading->next && i < reading->capacity; i++)
    reading->slots[i] = NULL;
}

/* Reads a region and returns to the one around it. `is_isolated`: its values are numbered from 0.
 */
static void read_one_region(bc_part_t *part, reading_t *reading, bool is_isolated,
                            hlo_region_t *region, const char ***out_names, read_each_t each) {
  const size_t origin = reading->origin;
  const size_t next = reading->next;
  const size_t end = reading->end;
  if (is_isolated) reading->origin = end;
  read_open_region(part, reading, region, out_names, each);
  reading->origin = origin;
  reading->next = next;
  reading->end = end;
}

/* Returns where the regions of an operation are: in a section of their own if they are isolated. */
static bc_part_t regions_part(bc_part_t *part, const head_t *head) {
  size_t number = BC_IR;
  if (!head->is_isolated || part->file->version < 2) return *part;
  bc_part_t inner = bc_section(part, &number);
  if (number != BC_IR) bc_fail(part, "expected a section of operations: the file is damaged");
  return inner;
}

/* Continues after the regions, which were read from `inner`. */
static void leave_regions(bc_part_t *part, const bc_part_t *inner, const head_t *head) {
  if (!head->is_isolated || part->file->version < 2) part->at = inner->at;
}

static void read_regions(bc_part_t *part, reading_t *reading, const head_t *head) {
  hlo_op_t *op = head->op;
  if (!head->region_count || bc_failed(part)) return;
  op->regions = bc_take(part, head->region_count, sizeof *op->regions);
  bc_part_t inner = regions_part(part, head);
  reading->level++;
  if (bc_enter(part))
    for (size_t i = 0; i < head->region_count && !bc_failed(part); i++)
      read_one_region(&inner, reading, head->is_isolated, &op->regions[i], NULL, read_nested_op);
  bc_leave(part);
  reading->level--;
  leave_regions(part, &inner, head);
  op->region_count = bc_failed(part) ? 0 : (int32_t)head->region_count;
}

/* Makes the operands of a cast its results. A program of VHLO has casts around the operations of
 * other dialects, whose tensor types are the same here. */
static void read_cast(bc_part_t *part, reading_t *reading, const head_t *head) {
  hlo_op_t *op = head->op;
  bool is_same = op->operand_count == op->result_count && !head->region_count;
  for (int32_t i = 0; is_same && i < op->result_count; i++) {
    is_same = hlo_type_equal(op->operands[i]->type, op->results[i]->type);
    reading->slots[head->first_slot + (size_t)i] = op->operands[i];
  }
  if (!is_same) bc_fail(part, "%.80s changes a type, which is not supported", op->name);
}

static void read_nested_op(bc_part_t *part, reading_t *reading, hlo_region_t *region) {
  head_t head = read_op_head(part, reading);
  hlo_op_t *op = head.op;
  if (bc_failed(part)) return;
  if (strcmp(op->name, "builtin.unrealized_conversion_cast") == 0) {
    read_cast(part, reading, &head);
    return;
  }
  read_regions(part, reading, &head);
  show_results(part, reading, &head);
  if (reading->level == 1 && strcmp(op->name, "stablehlo.return") == 0) op->name = "func.return";
  if (region->last)
    region->last->next = op;
  else
    region->first = op;
  region->last = op;
}

/* functions and the module */

static const char *text_attr(const hlo_attr_t *attrs, const char *name, const char *otherwise) {
  const hlo_attr_t *attr = hlo_attr_find(attrs, name);
  return attr && attr->text ? attr->text : otherwise;
}

static void read_function_op(bc_part_t *part, reading_t *reading, const head_t *head) {
  hlo_function_t *function = bc_take(part, 1, sizeof *function);
  const hlo_attr_t *attrs = &head->op->attrs;
  if (!function) return;
  reading->value_count = 0;
  reading->level = 1;
  function->at = head->op->at;
  function->name = text_attr(attrs, "sym_name", "");
  function->is_public = strcmp(text_attr(attrs, "sym_visibility", "public"), "private") != 0;
  if (head->region_count != 1)
    bc_fail(part, "the function @%.60s has %zu regions: the file is damaged", function->name,
            head->region_count);
  if (bc_failed(part)) return;
  bc_part_t inner = regions_part(part, head);
  read_one_region(&inner, reading, head->is_isolated, &function->body, &function->arg_names,
                  read_nested_op);
  leave_regions(part, &inner, head);
  reading->level = 0;
  function->value_count = reading->value_count;
  function->arg_attrs = hlo_attr_find(attrs, "arg_attrs");
  const hlo_attr_t *results = hlo_attr_find(attrs, "res_attrs");
  if (results && results->kind == HLO_ATTR_LIST) {
    function->result_names = bc_take(part, (size_t)results->count, sizeof *function->result_names);
    for (int32_t i = 0; i < results->count && !bc_failed(part); i++)
      function->result_names[i] = text_attr(&results->items[i], "jax.result_info", NULL);
    function->result_count = bc_failed(part) ? 0 : results->count;
  }
  if (bc_failed(part)) return;
  const char *problem = hlo_module_add(part->file->module, function);
  if (problem) bc_fail(part, "the function @%.60s %s", function->name, problem);
}

/* Reads a symbol of the module: a function, or a mesh of devices, which has no meaning here. */
static void read_module_op(bc_part_t *part, reading_t *reading, hlo_region_t *region) {
  head_t head = read_op_head(part, reading);
  (void)region;
  if (bc_failed(part)) return;
  const char *name = head.op->name;
  if (strcmp(name, "func.func") == 0)
    read_function_op(part, reading, &head);
  else if (strncmp(name, "sdy.", 4) == 0 || strncmp(name, "mpmd.", 5) == 0)
    read_regions(part, reading, &head);
  else
    bc_fail(part, "expected a function, found %.80s", name);
}

static void read_program(bc_part_t *part, reading_t *reading) {
  bc_file_t *file = part->file;
  hlo_region_t region = {0};
  size_t count = read_block_head(part, reading, &region, NULL);
  head_t head = {0};
  if (count != 1) bc_fail(part, "expected one module, found %zu operations", count);
  if (!bc_failed(part)) head = read_op_head(part, reading);
  if (bc_failed(part)) return;
  if (strcmp(head.op->name, "builtin.module") != 0 || head.region_count != 1) {
    bc_fail(part, "expected a module with one region, found %.80s", head.op->name);
    return;
  }
  file->module->name = text_attr(&head.op->attrs, "sym_name", "");
  bc_part_t inner = regions_part(part, &head);
  read_one_region(&inner, reading, head.is_isolated, &region, NULL, read_module_op);
  if (!file->module->functions) bc_fail(part, "expected a module with a function @main");
}

bool bc_is_bytecode(const char *bytes, size_t size) {
  return size >= 4 && memcmp(bytes, "ML\xEFR", 4) == 0;
}

tenon_status_t bc_read_module(const char *bytes, size_t size, tn_arena_t *arena,
                              hlo_module_t *out_module) {
  bc_file_t file = {.begin = (const uint8_t *)bytes,
                    .end = (const uint8_t *)bytes + size,
                    .arena = arena,
                    .module = out_module};
  reading_t reading = {0};
  *out_module = (hlo_module_t){.name = "", .begin = bytes, .is_bytecode = true};
  bc_read_sections(&file);
  if (file.status != TENON_OK) return file.status;
  out_module->begin = (const char *)file.sections[BC_IR].begin;
  read_program(&file.sections[BC_IR], &reading);
  return file.status;
}
