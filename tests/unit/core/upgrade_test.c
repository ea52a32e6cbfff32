/* UPGRADE texts: those that are accepted, those that are refused, and the chain of versions that
 * the attributes of a node pass through. */
#include "base/status.h"
#include "core/upgrade.h"

#include <string.h>

#include "core/value.h"
#include "texts.h"

static tn_arena_t arena;
static tn_upgrade_t upgrade;

static const char *refused(tenon_status_t status) {
  CHECK_STATUS(status, TENON_INVALID);
  return tn_error();
}

static tenon_status_t raise(const char *text, tn_arena_t *to) {
  return tn_upgrade_parse(1, text, to, &upgrade);
}

TEST("UPGRADE is parsed into a list of steps, and a value that a step sets stays text") {
  CHECK_STATUS(
      raise("rename alpha -> scale; set mode = 'le\\'ga;cy'; drop beta; set axes = [1, 2]", &arena),
      TENON_OK);
  CHECK(upgrade.from == 1 && upgrade.count == 4 && upgrade.steps[0].kind == TN_UPGRADE_RENAME);
  CHECK(strcmp(upgrade.steps[0].name, "alpha") == 0 && strcmp(upgrade.steps[0].to, "scale") == 0);
  CHECK(upgrade.steps[1].kind == TN_UPGRADE_SET &&
        strcmp(upgrade.steps[1].to, "'le\\'ga;cy'") == 0);
  CHECK(upgrade.steps[2].kind == TN_UPGRADE_DROP && strcmp(upgrade.steps[2].name, "beta") == 0 &&
        !upgrade.steps[2].to);
  CHECK(strcmp(upgrade.steps[3].to, "[1, 2]") == 0);
  CHECK_STATUS(raise("", &arena), TENON_OK);
  CHECK(upgrade.count == 0);
  CHECK_TEXT(
      refused(raise("renmae a -> b", &arena)),
      "upgrade 'renmae a -> b': column 1: expected rename, set or drop, found 'renmae'; did you "
      "mean 'rename'?");
  CHECK_TEXT(refused(raise("rename a b", &arena)),
             "column 10: expected '->' and the new name, found 'b'");
  CHECK_TEXT(refused(raise("rename a ->", &arena)),
             "column 12: expected the new name, found the end");
  CHECK_TEXT(refused(raise("set a 3", &arena)), "column 7: expected '=' and a value, found '3'");
  CHECK_TEXT(refused(raise("set a = b", &arena)), "column 9: expected a literal");
  CHECK_TEXT(refused(raise("drop", &arena)),
             "column 5: expected the name of an attribute, found the end");
  CHECK_TEXT(refused(tn_upgrade_parse(0, "drop a", &arena, &upgrade)),
             "upgrade from version 0: versions are counted from 1");
  CHECK_TEXT(refused(tn_upgrade_parse((int64_t)1 << 40, "drop a", &arena, &upgrade)),
             "versions are counted from 1");
}

/* Version 1 had least and mode, version 2 low and mode, version 3 low, high and form. The current
 * version is 4: floor, high, form. */
static tn_upgrade_t chain_items[3];
static const tn_upgrades_t *chain(void) {
  static const tn_upgrades_t all = {3, chain_items};
  static const char *const texts[] = {"rename least -> low",
                                      "set high = 6.0; rename mode -> form; set tint = 1",
                                      "rename low -> floor; drop tint"};
  for (int i = 0; i < 3; i++)
    CHECK_STATUS(tn_upgrade_parse(i + 1, texts[i], &arena, &chain_items[i]), TENON_OK);
  return &all;
}

static const char *name_now(int64_t version, const char *name) {
  const char *now = tn_upgrades_name(chain(), version, name);
  return now ? now : "(none)";
}

TEST("an attribute's name is followed from its version to the current one") {
  CHECK_TEXT(name_now(1, "least"), "floor");
  /* Version 2 has no such name, so no upgrade renames it. */
  CHECK_TEXT(name_now(2, "least"), "least");
  CHECK_TEXT(name_now(2, "low"), "floor");
  CHECK_TEXT(name_now(3, "low"), "floor");
  CHECK_TEXT(name_now(4, "low"), "low");
  CHECK_TEXT(name_now(1, "mode"), "form");
  CHECK_TEXT(name_now(3, "tint"), "(none)");
  CHECK_TEXT(name_now(1, "high"), "(none)"); /* An upgrade sets it. */
  CHECK_TEXT(name_now(3, "high"), "high");
  CHECK_TEXT(name_now(9, "floor"), "floor");
}

static tenon_status_t note(void *context, const char *name, const char *literal) {
  char *all = context;
  strcat(strcat(strcat(strcat(all, name), "="), literal), ";");
  return strcmp(name, "stop") == 0 ? TENON_ABORTED : TENON_OK;
}

TEST("values that upgrades set are reported under the current names") {
  char all[200] = "";
  CHECK_STATUS(tn_upgrades_set(chain(), 1, note, all), TENON_OK);
  CHECK_TEXT(all, "high=6.0;");
  CHECK(strlen(all) == strlen("high=6.0;")); /* A later upgrade drops tint. */
  all[0] = 0;
  CHECK_STATUS(tn_upgrades_set(chain(), 3, note, all), TENON_OK);
  CHECK(all[0] == 0);
  CHECK_STATUS(raise("set a = 1; rename a -> stop", &arena), TENON_OK);
  CHECK_STATUS(tn_upgrades_set(&(tn_upgrades_t){1, &upgrade}, 1, note, all), TENON_ABORTED);
  CHECK_TEXT(all, "stop=1;");
}

static const char *checked(const char *first, int64_t from, const char *second, int64_t version) {
  tn_schema_t schema;
  tn_upgrade_t items[2];
  CHECK_STATUS(tn_schema_parse("f(Tensor x, *, float scale=1.0, int count=2) -> Tensor", "ns",
                               &arena, &schema),
               TENON_OK);
  CHECK_STATUS(tn_upgrade_parse(1, first, &arena, &items[0]), TENON_OK);
  CHECK_STATUS(tn_upgrade_parse(from, second, &arena, &items[1]), TENON_OK);
  tenon_status_t status = tn_upgrades_check(&(tn_upgrades_t){2, items}, version, &schema, &arena);
  return status == TENON_OK ? "fine" : tn_error();
}

TEST("upgrades must end at attributes of the schema, with values that fit, in order of versions") {
  CHECK_TEXT(checked("rename alpha -> beta; set number = 3", 2,
                     "rename beta -> scale; rename number -> count", 3),
             "fine");
  CHECK_TEXT(checked("rename alpha -> beta", 2, "drop beta", 3), "fine");
  CHECK_TEXT(checked("rename alpha -> beta", 2, "", 3),
             "upgrade from version 1: 'alpha' becomes 'beta', which is not an attribute of f(");
  CHECK_TEXT(checked("", 3, "set beta = 1", 4),
             "upgrade from version 3: 'beta' becomes 'beta', which is not an attribute");
  CHECK_TEXT(checked("set count = 1.5", 2, "", 3), "upgrade from version 1: ");
  CHECK_TEXT(tn_error(), "'count': expected int, found 1.5");
  CHECK_TEXT(checked("", 1, "", 3),
             "upgrade from version 1 follows the one from version 1: expected ascending versions");
  CHECK_TEXT(checked("", 2, "", 2),
             "upgrade from version 2: expected a version below the operator's, 2");
}

static const char *const steps =
    "rename alpha -> scale; set mode = 'legacy'; drop beta; set axes = [1, 2]";

TEST("parsing survives the failure of each allocation") { texts_check_memory(steps, raise); }

TEST("parsing survives arbitrary bytes") { texts_check_broken(steps, raise, 5000); }

TEST("everything is freed") { tn_arena_clear(&arena); }
