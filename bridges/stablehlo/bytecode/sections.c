/* The head, the sections, and the tables of MLIR bytecode: strings, names of dialects and
 * operations, where attributes, types, properties and resources are. Called by operations.c.
 * Invariant: every table is bounded by the bytes that state it, and every string ends with a 0. */
#include "bytecode/sections.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

enum { NAME_MAX = 200 }; /* Characters of a dialect's name, which each of its operations repeats. */

static const char *const section_names[BC_SECTIONS] = {
    "string section",           "dialect section",         "attribute section",
    "attribute offset section", "operation section",       "resource section",
    "resource offset section",  "dialect version section", "property section"};

/* sections */

bc_part_t bc_section(bc_part_t *part, size_t *out_number) {
  uint8_t head = bc_byte(part);
  uint64_t size = bc_number(part);
  *out_number = head & 0x7F;
  if (head & 0x80) bc_align(part, bc_number(part));
  const uint8_t *at = bc_bytes(part, size);
  if (!at) return bc_part_of(part, part->end, part->end);
  return bc_part_of(part, at, at + size);
}

static void read_section(bc_part_t *whole) {
  size_t number = 0;
  bc_part_t section = bc_section(whole, &number);
  if (number >= BC_SECTIONS)
    bc_fail(whole, "expected a section below %d, found %zu: the file is damaged or newer",
            BC_SECTIONS, number);
  if (bc_failed(whole)) return;
  if (whole->file->sections[number].name)
    bc_fail(whole, "the %s occurs twice: the file is damaged", section_names[number]);
  section.begin = section.at;
  section.name = section_names[number];
  whole->file->sections[number] = section;
}

static void read_file_head(bc_part_t *whole) {
  (void)bc_bytes(whole, 4); /* The caller has seen them. */
  whole->file->version = bc_number(whole);
  if (whole->file->version > BC_VERSION_MAX)
    bc_fail(whole,
            "version %llu of MLIR bytecode is not supported, at most %d is: write the program "
            "with a lower target version",
            (unsigned long long)whole->file->version, BC_VERSION_MAX);
  while (!bc_failed(whole) && bc_byte(whole)) { /* Skips the name of the writer. */
  }
  while (bc_left(whole))
    read_section(whole);
}

static void check_sections(bc_part_t *whole) {
  static const int needed[] = {BC_STRINGS, BC_DIALECTS, BC_ATTRIBUTES, BC_ATTRIBUTE_OFFSETS, BC_IR};
  for (size_t i = 0; i < sizeof needed / sizeof *needed; i++)
    if (!whole->file->sections[needed[i]].name)
      bc_fail(whole, "the file has no %s: its end is missing", section_names[needed[i]]);
}

/* strings */

static void read_string_table(bc_file_t *file) {
  bc_part_t *part = &file->sections[BC_STRINGS];
  size_t count = bc_count(part, "strings");
  uint64_t total = 0;
  file->strings = bc_take(part, count, sizeof *file->strings);
  for (size_t i = count; i-- > 0 && !bc_failed(part);) { /* Sizes stand in reverse order. */
    uint64_t size = bc_number(part);
    if (!size || size > bc_left(part))
      bc_fail(part, "a string has %llu bytes: the file is damaged", (unsigned long long)size);
    if (bc_failed(part)) return;
    file->strings[i].size = (size_t)size;
    total += size;
  }
  if (total != bc_left(part))
    bc_fail(part, "the strings have %llu bytes, but %zu follow: the file is damaged",
            (unsigned long long)total, bc_left(part));
  for (size_t i = 0; i < count && !bc_failed(part); i++) {
    const uint8_t *at = bc_bytes(part, file->strings[i].size);
    file->strings[i].text = (const char *)at;
    file->strings[i].size--;
    if (at && at[file->strings[i].size]) bc_fail(part, "a string has no end: the file is damaged");
  }
  file->string_count = bc_failed(part) ? 0 : count;
}

/* dialects and names of operations */

static void read_dialect(bc_part_t *part, const char **out_name) {
  bool has_version = false;
  uint64_t index = part->file->version ? bc_flagged(part, &has_version) : bc_number(part);
  index = bc_check_index(part, index, part->file->string_count, "a string");
  if (bc_failed(part)) return;
  *out_name = part->file->strings[index].text;
  if (strlen(*out_name) > NAME_MAX)
    bc_fail(part, "the name of a dialect has more than %d characters", NAME_MAX);
  size_t number;
  if (has_version) (void)bc_section(part, &number);
}

static void read_op_name(bc_part_t *part, const char *dialect, bc_op_name_t *out) {
  bool is_registered = true;
  uint64_t index = part->file->version < 5 ? bc_number(part) : bc_flagged(part, &is_registered);
  index = bc_check_index(part, index, part->file->string_count, "a string");
  if (bc_failed(part)) return;
  const bc_text_t *name = &part->file->strings[index];
  size_t room = strlen(dialect) + name->size + 2;
  char *text = bc_take(part, room, 1);
  if (text) snprintf(text, room, "%s%s%s", dialect, name->size ? "." : "", name->text);
  for (const char *p = text; p && *p; p++)
    if (!isgraph((unsigned char)*p))
      bc_fail(part, "the name of an operation has a character that no name has: the file is "
                    "damaged");
  *out = (bc_op_name_t){.text = text, .has_plain_attrs = !is_registered};
}

/* Reads the names of operations in groups: a dialect, a count, and as many names. */
static void read_op_names(bc_part_t *part) {
  bc_file_t *file = part->file;
  size_t most = bc_left(part);
  if (file->version >= 4) most = bc_count(part, "names of operations");
  file->op_names = bc_take(part, most, sizeof *file->op_names);
  while (bc_left(part)) {
    size_t dialect = bc_index(part, file->dialect_count, "a dialect");
    size_t count = bc_count(part, "names of operations");
    if (count > most - file->op_name_count)
      bc_fail(part, "more names of operations than stated: the file is damaged");
    for (size_t i = 0; i < count && !bc_failed(part); i++)
      read_op_name(part, file->dialects[dialect], &file->op_names[file->op_name_count++]);
  }
}

static void read_dialects(bc_file_t *file) {
  bc_part_t *part = &file->sections[BC_DIALECTS];
  size_t count = bc_count(part, "dialects");
  file->dialects = bc_take(part, count, sizeof *file->dialects);
  for (size_t i = 0; i < count && !bc_failed(part); i++)
    read_dialect(part, &file->dialects[i]);
  if (bc_failed(part)) return;
  file->dialect_count = count;
  read_op_names(part);
}

/* offsets of attributes and types */

/* Reads the sizes of `count` entries in groups and gives each its bytes of the section. */
static void read_entry_group(bc_part_t *part, bc_entry_t *entries, size_t count) {
  bc_file_t *file = part->file;
  bc_part_t *section = &file->sections[BC_ATTRIBUTES];
  size_t done = 0;
  while (done < count && !bc_failed(part)) {
    size_t dialect = bc_index(part, file->dialect_count, "a dialect");
    size_t group = bc_count(part, "sizes");
    if (!group || group > count - done)
      bc_fail(part, "a group of %zu sizes is not expected here: the file is damaged", group);
    for (size_t i = 0; i < group && !bc_failed(part); i++) {
      bc_entry_t *entry = &entries[done++];
      bool is_custom = false;
      uint64_t size = bc_flagged(part, &is_custom);
      entry->at = bc_bytes(section, size);
      entry->end = section->at;
      entry->dialect = file->dialects[dialect];
      entry->is_text = !is_custom;
    }
  }
}

static void read_entry_tables(bc_file_t *file) {
  bc_part_t *part = &file->sections[BC_ATTRIBUTE_OFFSETS];
  size_t attr_count = bc_count(part, "attributes");
  size_t type_count = bc_count(part, "types");
  file->attrs = bc_take(part, attr_count, sizeof *file->attrs);
  file->types = bc_take(part, type_count, sizeof *file->types);
  if (bc_failed(part)) return;
  read_entry_group(part, file->attrs, attr_count);
  read_entry_group(part, file->types, type_count);
  file->attr_count = attr_count;
  file->type_count = type_count;
}

/* properties and resources */

static void read_properties(bc_file_t *file) {
  bc_part_t *part = &file->sections[BC_PROPERTIES];
  if (!part->name) return;
  size_t count = bc_count(part, "properties");
  file->properties = bc_take(part, count, sizeof *file->properties);
  for (size_t i = 0; i < count && !bc_failed(part); i++) {
    size_t size = 0;
    const uint8_t *at = bc_blob(part, &size);
    if (at) file->properties[i] = bc_part_of(part, at, at + size);
  }
  file->property_count = bc_failed(part) ? 0 : count;
}

/* Reads where the bytes of a resource are. `kind` 0 are bytes; others have no meaning here. */
static void read_resource(bc_part_t *part, bc_part_t *data, bc_resource_t *out) {
  *out = (bc_resource_t){.key = bc_string(part)};
  uint64_t size = bc_number(part);
  uint8_t kind = bc_byte(part);
  const uint8_t *at = bc_bytes(data, size);
  if (kind || !size || !at) return;
  bc_part_t inner = bc_part_of(data, at, data->at);
  uint64_t alignment = bc_number(&inner);
  uint64_t bytes = bc_number(&inner);
  bc_align(&inner, alignment);
  out->bytes = bc_bytes(&inner, bytes);
  out->size = out->bytes ? (size_t)bytes : 0;
}

/* Reads groups of resources: those of other owners, then those of dialects, which are kept. */
static void read_resources(bc_file_t *file) {
  bc_part_t *part = &file->sections[BC_RESOURCE_OFFSETS];
  bc_part_t *data = &file->sections[BC_RESOURCES];
  if (!part->name || !data->name) return;
  size_t others = bc_count(part, "groups of resources");
  file->resources = bc_take(part, bc_left(part), sizeof *file->resources);
  for (size_t group = 0; bc_left(part); group++) {
    if (group < others)
      (void)bc_string(part);
    else
      (void)bc_index(part, file->dialect_count, "a dialect");
    size_t count = bc_count(part, "resources");
    for (size_t i = 0; i < count && !bc_failed(part); i++) {
      bc_resource_t *resource = &file->resources[file->resource_count];
      read_resource(part, data, resource);
      if (group >= others) file->resource_count++;
    }
  }
}

void bc_read_sections(bc_file_t *file) {
  bc_part_t whole = {file, "file", file->begin, file->begin, file->end};
  for (size_t i = 0; i < BC_SECTIONS; i++)
    file->sections[i].file = file;
  read_file_head(&whole);
  check_sections(&whole);
  if (!bc_failed(&whole)) read_string_table(file);
  if (!bc_failed(&whole)) read_dialects(file);
  if (!bc_failed(&whole)) read_entry_tables(file);
  if (!bc_failed(&whole)) read_properties(file);
  if (!bc_failed(&whole)) read_resources(file);
}
