/* `tenon compare` runs a model in two configurations and finds the first node whose results
 * differ. */
#include <stdio.h>
#include <string.h>
#include <tenon/tenon.h>

#include "compare_side.h"
#include "differences.h"
#include "first_difference.h"
#include "json.h"
#include "library.h"
#include "options.h"
#include "print_error.h"
#include "system.h"

typedef struct compare_t {
  side_request_t request;
  side_t first;
  side_t second;
  const char *against;
  const char *record;
  const char *svg;
  texts_t inputs;
  texts_t dims;
  tolerance_t tolerance;
  bool all;
  bool json;
  bool each;
  text_t folder;
  text_t a_folder;
  text_t b_folder; /* temporary folders */
  values_t a;
  values_t b;
  differences_t values;
  differences_t outputs;
  text_t details;
  text_t dump;
} compare_t;

static void drop_runs(compare_t *c) {
  differences_free(&c->values);
  differences_free(&c->outputs);
  values_free(&c->a);
  values_free(&c->b);
}

static bool run_both(compare_t *c, text_t *why) {
  drop_runs(c);
  text_clear(&c->a_folder);
  text_clear(&c->b_folder);
  text_add(&c->a_folder, "%s/%s", text_get(&c->folder), c->each ? "a-each" : "a");
  text_add(&c->b_folder, "%s/%s", text_get(&c->folder), c->each ? "b-each" : "b");
  return side_run(&c->first, &c->request, text_get(&c->a_folder), NULL, c->each, why) &&
         side_run(&c->second, &c->request, text_get(&c->b_folder), text_get(&c->a_folder), c->each,
                  why) &&
         values_load(text_get(&c->a_folder), &c->a, why) &&
         values_load(text_get(&c->b_folder), &c->b, why) &&
         differences_find(&c->a, &c->b, "value", &c->tolerance, &c->values, why) &&
         differences_find(&c->a, &c->b, "output", &c->tolerance, &c->outputs, why);
}

/* A value that is observed cannot be fused away. If only the outputs differ, the values are
 * therefore observed one at a time, each in a run of its own. */
static bool find_difference(compare_t *c, text_t *why) {
  if (!run_both(c, why)) return false;
  if (c->values.first >= 0 || c->outputs.first < 0 || c->each) return true;
  c->each = true;
  return run_both(c, why);
}

static bool describe_first_difference(compare_t *c, text_t *why) {
  tenon_graph_t *graph = NULL;
  if (c->values.first < 0) return true;
  const value_t *value = c->values.items[c->values.first].value;
  library_supervise();
  if (!library_load_all(&c->first.libraries, false, why)) return false;
  if (tenon_graph_load(c->request.model, NULL, &graph) != TENON_OK) {
    text_add(why, "%s", tenon_error());
    return false;
  }
  first_difference_t culprit = {graph,       &c->a,     &c->b,       value->node,
                                value->name, c->record, c->tolerance};
  bool fine = system_make_folder(c->record, why) &&
              first_difference_describe(&culprit, &c->details, &c->dump, why);
  tenon_graph_release(graph);
  return fine;
}

static void add_title(text_t *out, const compare_t *c) {
  text_add(out, "%s: ", text_file_name(c->request.model));
  side_add(out, &c->first);
  text_add(out, "  against  ");
  side_add(out, &c->second);
}

static void print_comparison(const compare_t *c) {
  text_t out = {NULL, 0, 0, false};
  const differences_t *v = &c->values;
  add_title(&out, c);
  text_add(&out, "\n%d of %d values compared, %d differ; of the outputs %d compared, %d differ\n",
           (int)v->compared, (int)v->count, (int)v->wrong, (int)c->outputs.compared,
           (int)c->outputs.wrong);
  if (c->all) differences_add_text(&out, v, true, system_terminal_width());
  if (v->first >= 0) {
    const difference_t *d = &v->items[v->first];
    text_add(&out, "first difference: node '%s' (%s), value '%s'\n  %s\n", d->value->node,
             d->value->op, d->value->name, text_get(&d->words));
    text_add(&out, "%s", text_get(&c->details));
    if (c->dump.size)
      text_add(&out, "  the call was saved; to repeat it: tenon replay %s\n", text_get(&c->dump));
  } else if (c->outputs.first >= 0) {
    const difference_t *d = &c->outputs.items[c->outputs.first];
    text_add(&out,
             "output '%s' differs: %s\nno single value differs: the difference appears only when "
             "the whole graph is run\n",
             d->value->name, text_get(&d->words));
  }
  fputs(text_get(&out), stdout);
  text_free(&out);
}

static void print_json(const compare_t *c) {
  text_t out = {NULL, 0, 0, false};
  text_t side = {NULL, 0, 0, false};
  const differences_t *v = &c->values;
  text_add(&out, "{\n  \"model\": ");
  json_add_text(&out, c->request.model);
  side_add(&side, &c->first);
  text_add(&out, ",\n  \"first_run\": ");
  json_add_text(&out, text_get(&side));
  text_clear(&side);
  side_add(&side, &c->second);
  text_add(&out, ",\n  \"second_run\": ");
  json_add_text(&out, text_get(&side));
  text_add(&out, ",\n  \"compared\": %d,\n  \"differ\": %d,\n  \"outputs_differ\": %d",
           (int)v->compared, (int)v->wrong, (int)c->outputs.wrong);
  text_add(&out, ",\n  \"first\": ");
  json_add_text(&out, v->first >= 0 ? v->items[v->first].value->name : NULL);
  text_add(&out, ",\n  \"node\": ");
  json_add_text(&out, v->first >= 0 ? v->items[v->first].value->node : NULL);
  text_add(&out, ",\n  \"recording\": ");
  json_add_text(&out, c->dump.size ? text_get(&c->dump) : NULL);
  text_add(&out, ",\n  \"values\": ");
  differences_add_json(&out, v);
  text_add(&out, "\n}\n");
  fputs(text_get(&out), stdout);
  text_free(&out);
  text_free(&side);
}

static bool write_svg(const compare_t *c, text_t *why) {
  text_t out = {NULL, 0, 0, false};
  text_t title = {NULL, 0, 0, false};
  if (!c->svg) return true;
  add_title(&title, c);
  differences_add_svg(&out, &c->values, text_get(&title), c->tolerance.relative);
  FILE *file = fopen(c->svg, "w");
  bool fine = file && fputs(text_get(&out), file) >= 0;
  if (file && fclose(file) != 0) fine = false;
  if (!fine) text_add(why, "cannot write %s", c->svg);
  text_free(&out);
  text_free(&title);
  return fine;
}

static int compare_runs(compare_t *c, text_t *why) {
  bool fine = side_parse(c->against, &c->first, &c->second, why) &&
              system_make_temporary(&c->folder, why) && find_difference(c, why) &&
              describe_first_difference(c, why) && write_svg(c, why);
  if (fine && c->json)
    print_json(c);
  else if (fine)
    print_comparison(c);
  int code = c->values.wrong + c->outputs.wrong ? EXIT_FAILED : EXIT_FINE;
  if (!fine) code = print_failure("%s", text_get(why));
  if (fine && !c->values.compared && !c->outputs.compared)
    code = print_failure("the two runs have no value in common: nothing was compared");
  drop_runs(c);
  if (c->folder.size) system_remove_folder(text_get(&c->folder));
  return code;
}

static int run_compare_verb(const verb_t *verb, int argc, char **argv) {
  compare_t c = {.record = "recordings", .tolerance = {1e-3, 1e-5, false}};
  text_t why = {NULL, 0, 0, false};
  c.request.inputs = &c.inputs;
  c.request.dims = &c.dims;
  c.request.seed = "0";
  const option_t options[] = {
      {"against", 0, OPTION_TEXT, "CONFIGURATION",
       "the second configuration: a device name; onnxruntime; or a comma-separated list of "
       "differences from the first: device=, optimize=full|plain, threads=, capability=, ops=LIB, "
       "command=TENON",
       &c.against},
      {"input", 'i', OPTION_TEXTS, "NAME=VALUE",
       "an input, as for `tenon run` (default: random:0 for all)", &c.inputs},
      {"dim", 'd', OPTION_TEXTS, "NAME=N",
       "value of a symbolic extent of generated inputs (default: 1)", &c.dims},
      {"ops", 0, OPTION_TEXTS, "LIB", "load an operator library first; may be repeated",
       &c.first.libraries},
      {"device", 0, OPTION_TEXT, "NAME[:N]", "device of the first run", &c.first.device},
      {"optimize", 0, OPTION_TEXT, "full|plain", "graph optimisation of the first run",
       &c.first.optimize},
      {"threads", 't', OPTION_TEXT, "N", "number of threads of the first run", &c.first.threads},
      {"capability", 0, OPTION_TEXT, "NAME",
       "instruction set of the first run: default, avx2, avx512", &c.first.capability},
      {"rtol", 0, OPTION_NUMBER, "X", "relative tolerance (default: 1e-3)", &c.tolerance.relative},
      {"atol", 0, OPTION_NUMBER, "X", "absolute tolerance (default: 1e-5)", &c.tolerance.absolute},
      {"each", 0, OPTION_FLAG, NULL,
       "run the model once for each value, so that fused nodes stay fused (automatic if only "
       "outputs differ)",
       &c.each},
      {"all", 'a', OPTION_FLAG, NULL,
       "list every value with a bar that shows the magnitude of its error", &c.all},
      {"json", 0, OPTION_FLAG, NULL, "print all results as JSON", &c.json},
      {"svg", 0, OPTION_TEXT, "FILE", "write a chart of the error by node to FILE", &c.svg},
      {"record", 0, OPTION_TEXT, "DIR",
       "folder for the call of the first node that differs (default: recordings)", &c.record},
      {"python", 0, OPTION_TEXT, "PROGRAM",
       "a Python interpreter with onnxruntime (default: python3)", &c.request.python},
      {"seed", 's', OPTION_TEXT, "N", "seed of random operators (default: 0)", &c.request.seed},
      {NULL, 0, OPTION_FLAG, NULL, NULL, NULL}};
  command_line_t line = {verb, options, 1, 1, "MODEL", {NULL, 0, 0}, NULL};
  int code = options_parse(&line, argc, argv);
  if (code == OPTIONS_PARSED && !c.against)
    code = print_usage_error(verb->name,
                             "the second configuration is missing: add --against CONFIGURATION");
  if (code == OPTIONS_PARSED) {
    c.request.model = line.operands.items[0];
    if (!c.inputs.count) (void)texts_add(&c.inputs, "random:0");
    code = compare_runs(&c, &why);
  }
  side_free(&c.first);
  side_free(&c.second);
  text_t *const texts[] = {&c.folder, &c.a_folder, &c.b_folder, &c.details, &c.dump, &why};
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
    text_free(texts[i]);
  texts_free(&c.inputs);
  texts_free(&c.dims);
  texts_free(&line.operands);
  return code;
}

const verb_t verb_compare = {
    "compare", "--against CONFIGURATION [option]... MODEL",
    "find the first node whose results differ between two runs of a model",
    "Runs a model in two configurations, each in its own process, compares every value, and "
    "reports the first difference: node, operator, inputs and the largest error. The call of that "
    "node is saved for `tenon replay`.\nExit status: 0: all values agree; 1: some differ.",
    run_compare_verb};
