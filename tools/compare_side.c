/* Parses one configuration of `tenon compare` and runs the model in it; see compare_side.h. */
#include "compare_side.h"

#include <string.h>

#include "process.h"
#include "system.h"

static const char *keep_text(side_t *side, const char *text, size_t size) {
  text_t copy = {NULL, 0, 0, false};
  text_bytes(&copy, text, size);
  bool fine = texts_add(&side->kept, text_get(&copy));
  text_free(&copy);
  return fine ? side->kept.items[side->kept.count - 1] : NULL;
}

static bool parse_setting(side_t *side, const char *at, size_t size, bool *has_libraries,
                          text_t *why) {
  static const char *const names[] = {"device",     "optimize", "threads",
                                      "capability", "command",  "ops"};
  const char **places[] = {&side->device, &side->optimize, &side->threads, &side->capability,
                           &side->command};
  const char *sign = memchr(at, '=', size);
  size_t i = 0;
  size_t name = sign ? (size_t)(sign - at) : 0;
  while (i < 6 && (strlen(names[i]) != name || strncmp(names[i], at, name) != 0))
    i++;
  if (i == 6) {
    text_add(why,
             "--against '%.*s': expected onnxruntime, a device name, or a comma-separated list of "
             "device=, optimize=full|plain, threads=, capability=, ops=LIB, command=TENON",
             (int)size, at);
    return false;
  }
  const char *value = keep_text(side, sign + 1, size - name - 1);
  if (!value) {
    text_add(why, "out of memory");
    return false;
  }
  if (i < 5) {
    *places[i] = value;
    return true;
  }
  if (!*has_libraries) texts_free(&side->libraries);
  *has_libraries = true;
  return texts_add(&side->libraries, value);
}

bool side_parse(const char *text, const side_t *other, side_t *side, text_t *why) {
  bool has_libraries = false;
  bool fine = true;
  *side = (side_t){other->device,  other->optimize, other->threads, other->capability,
                   other->command, {NULL, 0, 0},    false,          {NULL, 0, 0}};
  for (int32_t i = 0; i < other->libraries.count && fine; i++)
    fine = texts_add(&side->libraries, other->libraries.items[i]);
  if (strcmp(text, "onnxruntime") == 0) {
    side->is_onnxruntime = true;
    return fine;
  }
  if (!strchr(text, '=')) {
    side->device = text;
    return fine;
  }
  for (const char *at = text; *at && fine; at += *at == ',') {
    size_t size = strcspn(at, ",");
    fine = parse_setting(side, at, size, &has_libraries, why);
    at += size;
  }
  return fine;
}

void side_free(side_t *side) {
  texts_free(&side->libraries);
  texts_free(&side->kept);
}

void side_add(text_t *out, const side_t *side) {
  const struct {
    const char *name;
    const char *value;
  } parts[] = {{"device", side->device},
               {"optimize", side->optimize},
               {"threads", side->threads},
               {"capability", side->capability},
               {"command", side->command}};
  size_t before = out->size;
  if (side->is_onnxruntime) text_add(out, "ONNX Runtime");
  for (size_t i = 0; i < sizeof parts / sizeof *parts && !side->is_onnxruntime; i++)
    if (parts[i].value)
      text_add(out, "%s%s=%s", out->size > before ? ", " : "", parts[i].name, parts[i].value);
  for (int32_t i = 0; i < side->libraries.count && !side->is_onnxruntime; i++)
    text_add(out, "%sops=%s", out->size > before ? ", " : "", side->libraries.items[i]);
  if (out->size == before) text_add(out, "default configuration");
}

static bool add_option(texts_t *command, const char *name, const char *value) {
  return !value || (texts_add(command, name) && texts_add(command, value));
}

static bool add_options(texts_t *command, const char *name, const texts_t *values) {
  bool fine = true;
  for (int32_t i = 0; i < values->count && fine; i++)
    fine = add_option(command, name, values->items[i]);
  return fine;
}

static bool add_tenon(texts_t *command, const side_t *side) {
  text_t own = {NULL, 0, 0, false};
  bool fine = side->command || system_own_folder(&own);
  if (side->command)
    text_add(&own, "%s", side->command);
  else
    text_add(&own, "/tenon");
  fine = fine && texts_add(command, text_get(&own));
  text_free(&own);
  return fine;
}

static bool add_script(texts_t *command, const char *python, text_t *why) {
  static const char *const places[] = {"../share/tenon/onnxruntime_values.py",
                                       "../tools/onnxruntime_values.py"};
  text_t path = {NULL, 0, 0, false};
  text_t program = {NULL, 0, 0, false};
  bool found = false;
  for (size_t i = 0; i < 2 && !found; i++) {
    text_clear(&path);
    found = system_own_folder(&path);
    text_add(&path, "/%s", places[i]);
    found = found && system_is_file(text_get(&path));
  }
  if (!found)
    text_add(why, "onnxruntime_values.py was not found beside this command: reinstall Tenon");
  if (found && python && strchr(python, '/'))
    text_add(&program, "%s", python);
  else if (found && !system_find_program(python ? python : "python3", &program)) {
    text_add(why, "%s was not found in PATH: choose a Python interpreter by --python PROGRAM",
             python ? python : "python3");
    found = false;
  }
  found = found && texts_add(command, text_get(&program)) && texts_add(command, text_get(&path));
  text_free(&path);
  text_free(&program);
  return found;
}

bool side_run(const side_t *side, const side_request_t *request, const char *folder,
              const char *first, bool each, text_t *why) {
  texts_t command = {NULL, 0, 0};
  text_t words = {NULL, 0, 0, false};
  bool fine;
  if (side->is_onnxruntime) {
    fine = add_script(&command, request->python, why) && texts_add(&command, request->model) &&
           texts_add(&command, first) && texts_add(&command, folder);
  } else {
    const char *device = side->device && strcmp(side->device, "cpu") != 0 ? side->device : NULL;
    fine = add_tenon(&command, side) && texts_add(&command, "run") &&
           texts_add(&command, request->model) && add_option(&command, "--values", folder) &&
           add_option(&command, "--seed", request->seed) &&
           add_option(&command, "--device", device) &&
           add_option(&command, "--optimize", side->optimize) &&
           add_option(&command, "--threads", side->threads) &&
           add_options(&command, "--ops", &side->libraries) &&
           add_options(&command, "--input", request->inputs) &&
           add_options(&command, "--dim", request->dims) &&
           (!each || texts_add(&command, "--values-each"));
  }
  if (!fine && !why->size) text_add(why, "out of memory");
  if (fine && !process_run(&command, "TENON_CPU_CAPABILITY", side->capability, &words)) {
    side_add(why, side);
    text_add(why, ": %s", text_get(&words));
    fine = false;
  }
  texts_free(&command);
  text_free(&words);
  return fine;
}
