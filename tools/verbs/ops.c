/* `tenon ops` lists the operators of libraries, or the built-in ones, as a table or as JSON. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <tenon/tenon.h>

#include "json.h"
#include "library.h"
#include "options.h"
#include "passes.h"
#include "print_error.h"
#include "system.h"

typedef struct row_t {
  const tenon_op_t *op;
  tenon_op_info_t info;
} row_t;

typedef struct rows_t {
  row_t *items;
  int32_t count;
  int32_t capacity;
} rows_t;

static bool add_row(rows_t *rows, const tenon_op_t *op) {
  if (rows->count == rows->capacity) {
    if (rows->capacity > INT32_MAX / 4) return false;
    int32_t capacity = rows->capacity * 2 + 64;
    row_t *items = realloc(rows->items, (size_t)capacity * sizeof *items);
    if (!items) return false;
    rows->items = items;
    rows->capacity = capacity;
  }
  row_t *row = &rows->items[rows->count++];
  *row = (row_t){.op = op, .info = {.size = sizeof row->info}};
  tenon_op_info(op, &row->info);
  return true;
}

static int compare_rows(const void *a, const void *b) {
  return strcmp(((const row_t *)a)->info.name, ((const row_t *)b)->info.name);
}

/* Collects the operators of these libraries, or of everything that is loaded. */
static bool collect_operators(const texts_t *files, bool all, rows_t *rows, text_t *why) {
  bool fine = true;
  for (int32_t i = 0; fine && i < files->count; i++) {
    tenon_library_t *library = NULL;
    text_t path = {NULL, 0, 0, false};
    library_path(files->items[i], &path);
    fine = library_load(text_get(&path), 0, &library) == TENON_OK;
    if (!fine) text_add(why, "%s", tenon_error());
    for (int32_t k = 0; fine && !all && k < tenon_library_op_count(library); k++)
      if (!(fine = add_row(rows, tenon_library_op(library, k)))) text_add(why, "out of memory");
    tenon_library_release(library); /* the library stays loaded, so the rows may borrow its texts */
    text_free(&path);
  }
  if (fine && (all || files->count == 0)) {
    const tenon_op_t *const *ops = NULL;
    int32_t count = 0;
    if (tenon_ops_list(&ops, &count) != TENON_OK) {
      text_add(why, "%s", tenon_error());
      return false;
    }
    for (int32_t i = 0; fine && i < count; i++)
      if (!(fine = add_row(rows, ops[i]))) text_add(why, "out of memory");
    tenon_ops_release(ops);
  }
  if (rows->count > 1) qsort(rows->items, (size_t)rows->count, sizeof *rows->items, compare_rows);
  return fine;
}

/* Keeps the operators that have a kernel of their own for a key, or with `missing` those for which
 * a call would find none. */
static bool filter_by_key(rows_t *rows, const char *key, bool missing, text_t *why) {
  int32_t kept = 0;
  for (int32_t i = 0; i < rows->count; i++) {
    tenon_slot_info_t entry = {.size = sizeof entry};
    if (tenon_op_slot(rows->items[i].op, key, &entry) != TENON_OK) {
      text_add(why, "%s", tenon_error());
      return false;
    }
    bool is_own = tenon_op_has_kernel(rows->items[i].op, key) != 0;
    if (missing ? entry.is_missing != 0 : is_own) rows->items[kept++] = rows->items[i];
  }
  rows->count = kept;
  return true;
}

/* Keeps the operators with stubs; given a backend, those whose stub has a kernel for it. */
static bool filter_stubs(rows_t *rows, const char *backend, text_t *why) {
  int32_t kept = 0;
  for (int32_t i = 0; i < rows->count; i++) {
    const tenon_op_t *op = rows->items[i].op;
    tenon_slot_info_t known = {.size = sizeof known};
    tenon_stub_slot_t entry = {.size = sizeof entry};
    if (backend && tenon_op_slot(op, backend, &known) != TENON_OK) {
      text_add(why, "%s", tenon_error());
      return false;
    }
    bool fits = tenon_op_stub(op) && !backend;
    for (int32_t k = 0; backend && !fits && tenon_op_stub_slot(op, k, &entry) == TENON_OK; k++)
      fits = strcmp(entry.backend, backend) == 0;
    if (fits) rows->items[kept++] = rows->items[i];
  }
  rows->count = kept;
  return true;
}

/* Adds the kernels of a stub, each once: "cpu, cpu avx2, npu from vendor". */
static void add_stubs(const row_t *row, const char *backend, text_t *text) {
  tenon_stub_slot_t entry = {.size = sizeof entry};
  tenon_stub_slot_t other = {.size = sizeof other};
  const char *separator = "";
  for (int32_t i = 0; tenon_op_stub_slot(row->op, i, &entry) == TENON_OK; i++) {
    bool is_new = !backend || strcmp(entry.backend, backend) == 0;
    for (int32_t k = 0; k < i && is_new && tenon_op_stub_slot(row->op, k, &other) == TENON_OK; k++)
      is_new = strcmp(entry.backend, other.backend) != 0 ||
               strcmp(entry.capability, other.capability) != 0 ||
               strcmp(entry.library, other.library) != 0;
    if (!is_new) continue;
    text_add(text, "%s%s%s%s", separator, entry.backend, *entry.capability ? " " : "",
             entry.capability);
    if (strcmp(entry.library, row->info.library) != 0) text_add(text, " from %s", entry.library);
    if (!entry.is_usable) text_add(text, " (not supported by this processor)");
    separator = ", ";
  }
}

static int print_dangling(void) {
  char *text = NULL;
  if (tenon_dangling(&text) != TENON_OK) return print_runtime_error(NULL);
  fputs(*text ? text : "no kernels are waiting for an operator\n", stdout);
  tenon_text_release(text);
  return EXIT_FINE;
}

/* Returns the part of a schema after the name: arguments and results. */
static const char *signature(const row_t *row) {
  const char *open = row->info.schema ? strchr(row->info.schema, '(') : NULL;
  return open ? open : "";
}

static int32_t column_width(size_t size, int32_t limit) {
  return size < (size_t)limit ? (int32_t)size : limit;
}

static void print_table(const rows_t *rows) {
  int32_t names = 8;
  int32_t signatures = 8;
  int32_t width = system_terminal_width();
  text_t line = {NULL, 0, 0, false};
  for (int32_t i = 0; i < rows->count;
       i++) { /* A few long names may exceed the column; they do not widen the table. */
    int32_t name = column_width(strlen(rows->items[i].info.name), 36);
    int32_t text = column_width(strlen(signature(&rows->items[i])), 64);
    if (name > names) names = name;
    if (text > signatures) signatures = text;
  }
  if (rows->count > 0)
    printf("%-*s  kernels  %-*s  about\n", (int)names, "operator", (int)signatures, "arguments");
  for (int32_t i = 0; i < rows->count; i++) {
    const tenon_op_info_t *info = &rows->items[i].info;
    const char *doc = info->doc ? info->doc : "";
    text_clear(&line);
    text_add(&line, "%-*s  %7d  %-*s", (int)names, info->name, (int)info->kernel_count,
             *doc ? (int)signatures : 0, signature(&rows->items[i]));
    if (*doc) text_add(&line, "  %.*s", (int)strcspn(doc, "\n"), doc);
    if (width > 8 && line.size > (size_t)width)
      printf("%.*s...\n", (int)width - 3, text_get(&line));
    else
      printf("%s\n", text_get(&line));
  }
  text_free(&line);
}

static void print_stubs(const rows_t *rows, const char *backend) {
  int32_t names = 4;
  int32_t overs = 9;
  int32_t stubs_width = 12;
  text_t stubs = {NULL, 0, 0, false};
  for (int32_t i = 0; i < rows->count; i++) {
    int32_t name = column_width(strlen(rows->items[i].info.name), 36);
    int32_t over = column_width(strlen(tenon_op_stub(rows->items[i].op)), 24);
    if (name > names) names = name;
    text_clear(&stubs);
    add_stubs(&rows->items[i], backend, &stubs);
    int32_t width = column_width(stubs.size, 40);
    if (over > overs) overs = over;
    if (width > stubs_width) stubs_width = width;
  }
  if (rows->count > 0)
    printf("%-*s  %-*s  %-*s  arguments\n", (int)names, "stub", (int)overs, "iteration",
           (int)stubs_width, "kernels");
  for (int32_t i = 0; i < rows->count; i++) {
    const row_t *row = &rows->items[i];
    text_clear(&stubs);
    add_stubs(row, backend, &stubs);
    printf("%-*s  %-*s  %-*s  %s\n", (int)names, row->info.name, (int)overs, tenon_op_stub(row->op),
           (int)stubs_width, stubs.size ? text_get(&stubs) : "none", signature(row));
  }
  text_free(&stubs);
}

static void add_trait(text_t *json, const char *name, uint64_t bit) {
  text_add(json, ", \"%s\": %s", name, bit ? "true" : "false");
}

static void print_json(const rows_t *rows) {
  text_t json = {NULL, 0, 0, false};
  text_add(&json, "[");
  for (int32_t i = 0; i < rows->count; i++) {
    const tenon_op_info_t *info = &rows->items[i].info;
    const struct {
      const char *name;
      const char *text;
    } members[] = {{"name", info->name},
                   {"schema", info->schema},
                   {"doc", info->doc},
                   {"types", info->types},
                   {"shapes", info->shapes},
                   {"where", info->where},
                   {"gradient", info->gradient},
                   {"batching", info->batching},
                   {"sharding", info->sharding},
                   {"reuse", info->reuse},
                   {"library", info->library},
                   {"library_version", info->library_version},
                   {"library_path", info->library_path}};
    text_add(&json, "%s\n  {", i ? "," : "");
    for (size_t k = 0; k < sizeof members / sizeof *members; k++) {
      text_add(&json, "%s\"%s\": ", k ? ", " : "", members[k].name);
      json_add_text(&json, members[k].text);
    }
    text_add(&json, ", \"version\": %lld", (long long)info->version);
    add_trait(&json, "pure", info->traits & TENON_PURE);
    add_trait(&json, "pointwise", info->traits & TENON_POINTWISE);
    add_trait(&json, "random", info->traits & TENON_RANDOM);
    add_trait(&json, "brief", info->traits & TENON_BRIEF);
    text_add(&json, ", \"kernels\": [");
    for (int32_t k = 0; k < info->kernel_count; k++) {
      char *kernel = tenon_op_kernel(rows->items[i].op, k);
      text_add(&json, "%s", k ? ", " : "");
      json_add_text(&json, kernel);
      tenon_text_release(kernel);
    }
    text_add(&json, "], \"stub\": ");
    json_add_text(&json, tenon_op_stub(rows->items[i].op));
    text_add(&json, ", \"slots\": [");
    tenon_stub_slot_t entry = {.size = sizeof entry};
    for (int32_t k = 0; tenon_op_stub_slot(rows->items[i].op, k, &entry) == TENON_OK; k++) {
      text_add(&json, "%s{\"backend\": ", k ? ", " : "");
      json_add_text(&json, entry.backend);
      text_add(&json, ", \"capability\": ");
      json_add_text(&json, entry.capability);
      text_add(&json, ", \"kernel\": ");
      json_add_text(&json, entry.kernel);
      text_add(&json, ", \"library\": ");
      json_add_text(&json, entry.library);
      text_add(&json, "}");
    }
    text_add(&json, "]}");
  }
  text_add(&json, "%s]\n", rows->count > 0 ? "\n" : "");
  fputs(text_get(&json), stdout);
  text_free(&json);
}

static int run_ops_verb(const verb_t *verb, int argc, char **argv) {
  bool json = false;
  bool all = false;
  bool dangling = false;
  bool stubs = false;
  bool rewrites = false;
  const char *has = NULL;
  const char *lacks = NULL;
  rows_t rows = {NULL, 0, 0};
  text_t why = {NULL, 0, 0, false};
  const option_t options[] = {
      {"json", 'j', OPTION_FLAG, NULL, "print everything that is declared as a JSON list", &json},
      {"all", 'a', OPTION_FLAG, NULL, "with LIB: list the built-in operators too", &all},
      {"for", 0, OPTION_TEXT, "KEY",
       "only operators with a kernel of their own for a backend or layer (cpu, npu, autograd npu)",
       &has},
      {"missing", 0, OPTION_TEXT, "KEY",
       "only operators for which a call with this key finds no kernel", &lacks},
      {"stubs", 0, OPTION_FLAG, NULL,
       "list stubs and their kernels; with --for, those that have a kernel for the backend",
       &stubs},
      {"dangling", 0, OPTION_FLAG, NULL,
       "list kernels of the libraries whose operator is not loaded", &dangling},
      {"rewrites", 0, OPTION_FLAG, NULL,
       "list the rules by which graphs are rewritten, and those of the libraries", &rewrites},
      {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 0, -1, "LIB", {NULL, 0, 0}, NULL};
  int code = options_parse(&line, argc, argv);
  if (code == OPTIONS_PARSED) {
    if (line.operands.count) library_supervise();
    bool fine = collect_operators(&line.operands, all || has || lacks || stubs, &rows, &why);
    if (fine && stubs)
      fine = filter_stubs(&rows, has, &why);
    else if (fine && has)
      fine = filter_by_key(&rows, has, false, &why);
    if (fine && lacks) fine = filter_by_key(&rows, lacks, true, &why);
    if (!fine) {
      code = print_failure("%s", text_get(&why));
    } else {
      code = EXIT_FINE;
      if (dangling)
        code = print_dangling();
      else if (rewrites)
        rewrites_print();
      else if (json)
        print_json(&rows);
      else if (stubs)
        print_stubs(&rows, has);
      else {
        print_table(&rows);
        passes_print();
      }
    }
  }
  free(rows.items);
  texts_free(&line.operands);
  text_free(&why);
  return code;
}

const verb_t verb_ops = {
    "ops", "[option]... [LIB]...", "list the operators of libraries, or the built-in ones",
    "Lists name, number of kernels, arguments and results, and the first line of the documentation "
    "of each operator; then the passes and partitioners of LIB.\nLIB is a file, or a name that is "
    "searched in the folders of TENON_LIBRARY_PATH.",
    run_ops_verb};
