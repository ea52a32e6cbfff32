/* Cases about the device table itself, and the properties that the device reports. */
#include "groups.h"
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static void name(tenon_on_t on) {
  (void)on;
  const char *n = rig.table->name;
  EXPECT(n && *n, "table.name: expected a name, found %s", n ? "\"\"" : "NULL");
  EXPECT(strlen(n) < 32, "table.name: expected fewer than 32 characters, found %zu", strlen(n));
  for (const char *c = n; *c; c++)
    EXPECT(islower((unsigned char)*c) || *c == '_' || (c > n && isdigit((unsigned char)*c)),
           "table.name \"%s\": expected small letters, digits and '_', found '%c'", n, *c);
  EXPECT(strcmp(n, "cpu") != 0 && strcmp(n, "meta") != 0,
         "table.name \"%s\" is reserved for the host", n);
}

static void version(tenon_on_t on) {
  (void)on;
  EXPECT(rig.table->abi >> 16 == TENON_DEVICE_ABI >> 16,
         "table.abi: expected version %u of the contract, found %u", TENON_DEVICE_ABI >> 16,
         rig.table->abi >> 16);
  EXPECT(rig.table->size >= offsetof(tenon_device_table_t, stream_create) &&
             rig.table->size % sizeof(void *) == 0,
         "table.size: expected at least %zu, up to synchronize, and complete functions; found %u",
         offsetof(tenon_device_table_t, stream_create), rig.table->size);
  EXPECT(rig.table->type > 1,
         "table.type: expected a device type of DLPack (12 if it has no number), found %d%s",
         rig.table->type, rig.table->type == 1 ? ", the CPU" : "");
}

typedef struct slot_t {
  const char *name;
  uint32_t at;
} slot_t;
#define SLOT(name)                                                                                 \
  { #name, (uint32_t)offsetof(tenon_device_table_t, name) }

static int is_there(slot_t slot) {
  void *function = NULL;
  if (rig.table->size >= slot.at + sizeof function)
    memcpy(&function, (const char *)rig.table + slot.at, sizeof function);
  return function != NULL;
}

static void mandatory(tenon_on_t on) {
  (void)on;
  static const slot_t slots[] = {SLOT(enumerate), SLOT(start), SLOT(stop), SLOT(properties),
                                 SLOT(allocate),  SLOT(free),  SLOT(copy), SLOT(synchronize)};
  for (int i = 0; i < 8; i++)
    EXPECT(is_there(slots[i]), "the table has no %s, which every plug-in has", slots[i].name);
}

static void groups(tenon_on_t on) {
  (void)on;
  static const slot_t slots[][8] = {
      {SLOT(stream_create), SLOT(stream_destroy), SLOT(stream_query), SLOT(stream_synchronize)},
      {SLOT(event_create), SLOT(event_destroy), SLOT(event_record), SLOT(event_query),
       SLOT(event_synchronize), SLOT(stream_wait)},
      {SLOT(host_allocate), SLOT(host_free)},
      {SLOT(memory_import), SLOT(memory_forget)},
      {SLOT(stream_import), SLOT(stream_forget)},
      {SLOT(compile), SLOT(program_load), SLOT(program_unload), SLOT(kernel_find), SLOT(launch)},
      {SLOT(record_begin), SLOT(record_end), SLOT(replay), SLOT(recording_free)},
      {SLOT(claim), SLOT(group_compile), SLOT(group_run), SLOT(group_save), SLOT(group_load),
       SLOT(group_free)}};
  for (int g = 0; g < 8; g++)
    for (int i = 1; i < 8 && slots[g][i].name; i++)
      EXPECT(is_there(slots[g][i]) == is_there(slots[g][0]),
             "the table has %s but not %s: of these functions all must be present or none",
             slots[g][is_there(slots[g][0]) ? 0 : i].name,
             slots[g][is_there(slots[g][0]) ? i : 0].name);
  EXPECT(!HAS(event_create) || HAS(stream_create),
         "the table has event_create but not stream_create: events need streams");
  EXPECT(!HAS(event_time) || HAS(event_create), "the table has event_time but not event_create");
}

static void texts(tenon_on_t on) {
  (void)on;
  const struct {
    const char *name;
    const char *text;
  } all[] = {{"name", rig.properties.name},
             {"driver", rig.properties.driver},
             {"target", rig.properties.target}};
  for (int i = 0; i < 3; i++) {
    EXPECT(all[i].text, "properties.%s: expected a text, found NULL", all[i].name);
    EXPECT(i == 2 || all[i].text[0], "properties.%s: expected a text, found \"\"", all[i].name);
    EXPECT(strlen(all[i].text) < 1000,
           "properties.%s: expected fewer than 1000 characters, found %zu", all[i].name,
           strlen(all[i].text));
  }
  EXPECT(!rig.properties.languages || rig.properties.target[0],
         "properties.target: expected what compiled code depends on, found \"\"");
}

static void alignment(tenon_on_t on) {
  (void)on;
  uint32_t a = rig.properties.alignment;
  EXPECT(a >= 64 && (a & (a - 1)) == 0,
         "properties.alignment: expected a power of two, at least 64; found %u", a);
}

static void sizes(tenon_on_t on) {
  (void)on;
  const tenon_device_properties_t *p = &rig.properties;
  EXPECT(!p->memory || p->largest <= p->memory,
         "properties.largest: expected at most properties.memory, %llu; found %llu",
         (unsigned long long)p->memory, (unsigned long long)p->largest);
  EXPECT(!p->memory || p->memory >= (uint64_t)1 << 20,
         "properties.memory: expected a number of bytes, at least 1 MiB; found %llu",
         (unsigned long long)p->memory);
}

static void features(tenon_on_t on) {
  (void)on;
  uint32_t f = rig.properties.features;
  EXPECT(!(f & TENON_DEVICE_HOST_READS) || f & TENON_DEVICE_ADDRESSES,
         "properties.features: TENON_DEVICE_HOST_READS without TENON_DEVICE_ADDRESSES");
  EXPECT(!(f & TENON_DEVICE_TIMES) == !HAS(event_time),
         "properties.features: TENON_DEVICE_TIMES is %s, but the function event_time is %s",
         f & TENON_DEVICE_TIMES ? "set" : "not set", HAS(event_time) ? "present" : "missing");
  EXPECT(!(f & TENON_DEVICE_OVERLAPS) || HAS(stream_create),
         "properties.features: TENON_DEVICE_OVERLAPS is set, but the device has no streams");
}

static void languages(tenon_on_t on) {
  (void)on;
  EXPECT(!rig.properties.languages || HAS(compile),
         "properties.languages is 0x%x, but the function compile is missing",
         rig.properties.languages);
  EXPECT(!HAS(compile) || rig.properties.languages,
         "the function compile is present, but properties.languages is 0");
  EXPECT(!(rig.properties.languages & 1),
         "properties.languages: bit i stands for language i, and language 0 does not exist; found "
         "0x%x",
         rig.properties.languages);
  EXPECT(!HAS(launch) || rig.properties.group_most > 0,
         "properties.group_most: expected at least 1 for a device with launch, found 0");
}

static int list_of(const char *list_name, const uint32_t *list, int dtypes) {
  int count = 0;
  for (; list && list[count]; count++) {
    EXPECT(count < 200,
           "properties.%s: expected a list that ends with 0, found no end after 200 entries",
           list_name);
    if (!dtypes) continue;
    tenon_dtype_t d = tenon_dtype(list[count]);
    EXPECT(d.lanes == 1 && d.bits >= 1 && d.bits <= 128 && d.code <= 17,
           "properties.%s: entry %d is not a dtype: 0x%x (does the list end with 0?)", list_name,
           count, list[count]);
    for (int k = 0; k < count; k++)
      EXPECT(list[k] != list[count],
             "properties.%s: entry %d is repeated: 0x%x (does the list end with 0?)", list_name,
             count, list[count]);
  }
  return count;
}

static void lists(tenon_on_t on) {
  (void)on;
  const tenon_device_properties_t *p = &rig.properties;
  list_of("stores", p->stores, 1);
  list_of("computes", p->computes, 1);
  list_of("atomics", p->atomics, 1);
  list_of("layouts", p->layouts, 0);
  for (int i = 0; p->computes && p->stores && p->computes[i]; i++) {
    int found = 0;
    for (int k = 0; p->stores[k]; k++)
      found |= p->stores[k] == p->computes[i];
    EXPECT(found, "properties.computes has 0x%x, which properties.stores lacks", p->computes[i]);
  }
  for (int i = 0; p->atomics && p->atomics[i]; i++)
    EXPECT(p->features & TENON_DEVICE_WIDE_ATOMICS || tenon_dtype(p->atomics[i]).bits < 64,
           "properties.atomics has a 64-bit dtype (0x%x), but TENON_DEVICE_WIDE_ATOMICS is not set",
           p->atomics[i]);
}

static void same_twice(tenon_on_t on) {
  tenon_device_properties_t again = {.size = sizeof again};
  tenon_device_properties_t *p = &rig.properties;
  doing("properties()");
  must(rig.table->properties(on, &again), "properties");
  EXPECT(again.size == sizeof again, "properties changed `size`: expected %zu, found %u",
         sizeof again, again.size);
  EXPECT(again.features == p->features && again.memory == p->memory &&
             again.largest == p->largest && again.alignment == p->alignment &&
             again.languages == p->languages && again.group_most == p->group_most,
         "properties returns other values when it is called again");
  EXPECT(
      strcmp(again.name, p->name) == 0 && strcmp(again.driver, p->driver) == 0 &&
          strcmp(again.target, p->target) == 0,
      "properties returns other texts when it is called again, or does not keep them until stop");
}

static void larger(tenon_on_t on) { /* the larger structure of a newer host */
  struct {
    tenon_device_properties_t p;
    uint8_t guard[256];
  } newer = {.p = {.size = sizeof newer}};
  memset(newer.guard, 0, sizeof newer.guard);
  doing("properties()");
  must(rig.table->properties(on, &newer.p), "properties with the structure of a newer host");
  for (size_t i = 0; i < sizeof newer.guard; i++)
    EXPECT(newer.guard[i] == 0,
           "properties wrote past the fields that it knows, in the structure of a newer host");
}

static void of_ordinals(tenon_on_t on) {
  tenon_on_t other = other_of(on);
  tenon_device_properties_t p = {.size = sizeof p};
  char before[3][200];
  snprintf(before[0], 200, "%s", rig.properties.name);
  snprintf(before[1], 200, "%s", rig.properties.driver);
  snprintf(before[2], 200, "%s", rig.properties.target);
  doing("properties() of ordinal %d", other->ordinal);
  must(rig.table->properties(other, &p), "properties of ordinal %d", other->ordinal);
  EXPECT(p.name && p.driver && p.target, "properties of ordinal %d: expected texts, found NULL",
         other->ordinal);
  EXPECT(strncmp(before[0], rig.properties.name, 199) == 0 &&
             strncmp(before[1], rig.properties.driver, 199) == 0 &&
             strncmp(before[2], rig.properties.target, 199) == 0,
         "the texts of properties changed when those of another ordinal were requested");
}

const case_t table_cases[] = {
    {"table.name", "The backend has a name that the host does not reserve.", PLUGIN, name},
    {"table.version", "The table's size, version and device type are valid.", PLUGIN, version},
    {"table.mandatory", "The mandatory functions are present.", PLUGIN, mandatory},
    {"table.groups", "Of functions that belong together, all are present or none.", PLUGIN, groups},
    {0}};

const case_t property_cases[] = {
    {"properties.texts", "Name, driver and target are texts.", 0, texts},
    {"properties.alignment", "The alignment is a power of two, at least 64.", 0, alignment},
    {"properties.sizes", "The largest allocation is not larger than the memory.", 0, sizes},
    {"properties.features", "Features agree with each other and with the table.", 0, features},
    {"properties.languages", "Languages and groups agree with the table.", 0, languages},
    {"properties.lists", "Lists end with 0 and contain each dtype once.", 0, lists},
    {"properties.same_twice", "Repeated calls return the same properties.", 0, same_twice},
    {"properties.larger", "In the structure of a newer host only known fields are set.", 0, larger},
    {"properties.of_ordinals", "Properties of two ordinals are separate.", NEEDS_PEER, of_ordinals},
    {0}};
