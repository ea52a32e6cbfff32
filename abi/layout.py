"""What crosses between libraries, programs and libtenon, as a compiler sees it: structures, constants, functions of the headers.

read() takes it from debug information, text() and parse() are its form in abi/*.layout, differences() says what of it is no longer as it
was, growth() what was added, asserts() is the same as a C file.  Called by update.py and by the tests.
"""
import os
import re
import shutil
import subprocess
import tempfile

from elftools.elf.elffile import ELFFile

HEADERS = ("op", "device", "bridge", "graph", "iterator", "source", "check", "tenon", "torch", "tvm_ffi")
VERSIONS = {"device": "TENON_DEVICE_ABI", "bridge": "TENON_BRIDGE_ABI", "graph": "TENON_GRAPH_ABI", "op": "TENON_ABI", "iterator": "TENON_ABI", "source": "TENON_ABI", "check": "TENON_ABI"}
PREFIX = "tn_probe_"


class Problem(Exception):
    """The headers cannot be read."""


# ---- from a compiler --------------------------------------------------------------------------------------------------


def headers_of(include):
    """{header: text}.  The text of tenon.h is followed by those of its parts, tenon/api/*.h, in the order in which it includes them."""
    texts = {}
    for name in HEADERS:
        path = os.path.join(include, "tenon", name + ".h")
        if os.path.exists(path):
            text = text_of(path)
            parts = re.findall(r"^#include <(tenon/api/\w+\.h)>", text, re.M)
            texts[name] = "\n".join([text, *(text_of(os.path.join(include, part)) for part in parts)])
    return texts


def text_of(path):
    with open(path, encoding="utf-8") as file:
        return file.read()


def constants_of(text):
    """Macros that may be numbers; which of them are, the compiler says."""
    for name, body in re.findall(r"^#define[ \t]+(TENON_(?!HAS_)\w+)[ \t]+((?:.*\\\n)*.*)$", text, re.M):
        body = re.sub(r"/\*.*", "", body.replace("\\\n", " "), flags=re.S)
        if re.fullmatch(r"[\w\s()+\-*|&<>~,]+", body) and re.search(r"\d|sizeof", body):
            yield name


def functions_of(text):
    text = re.sub(r"/\*.*?\*/", "", text, flags=re.S)
    return re.findall(r"^TENON_API\b[^;(]*?\b(tenon_\w+)\(", text, re.M)


def read(include, compiler=("cc",)):
    """{header: {"structs": {name: (size, grows, {field: (offset, size, type)})}, "constants": {}, "types": {}, "functions": {}}}"""
    texts = headers_of(include)
    with tempfile.TemporaryDirectory() as folder:
        shutil.copytree(os.path.join(include, "tenon"), os.path.join(folder, "tenon"))
        text = text_of(os.path.join(folder, "tenon", "op.h"))
        with open(os.path.join(folder, "tenon", "op.h"), "w", encoding="utf-8") as file:
            file.write(text.replace("? 1 : -1]", "? 1 : 1]"))  # op.h's own check, which does not say what changed
        source, made = os.path.join(folder, "probe.c"), os.path.join(folder, "probe.o")
        lines = ["#define TENON_ALL"] + [f"#include <tenon/{name}.h>" for name in texts]
        for text in texts.values():
            lines += [f"#ifdef {name}\nenum {{ {PREFIX}{name} = {name} }};\n#endif" for name in dict.fromkeys(constants_of(text))]
            lines += [f"extern __typeof__(&{name}) {PREFIX}{name};\n__typeof__(&{name}) {PREFIX}{name};" for name in functions_of(text)]
        with open(source, "w", encoding="utf-8") as file:
            file.write("\n".join(lines) + "\n")
        flags = ["-std=gnu11", "-w", "-O0", "-g", "-gdwarf-4", "-fno-eliminate-unused-debug-types", "-I", folder, "-c", source, "-o", made]
        run = subprocess.run([*compiler, *flags], capture_output=True, text=True, check=False)
        if run.returncode:
            raise Problem(f"the headers do not compile:\n{run.stderr}")
        with open(made, "rb") as file:
            return layouts(ELFFile(file).get_dwarf_info(), texts)


def layouts(debug, texts):
    result = {name: {"structs": {}, "constants": {}, "types": {}, "functions": {}} for name in texts}
    homes = {name: header for header, text in texts.items() for name in (*constants_of(text), *functions_of(text))}
    for unit in debug.iter_CUs():
        program = debug.line_program_for_CU(unit).header
        for die in unit.get_top_DIE().iter_children():
            number = value(die, "DW_AT_decl_file")
            header = header_of(program, number) if number else ""
            name = name_of(die)
            if die.tag == "DW_TAG_variable" and name.startswith(PREFIX):
                function = name[len(PREFIX):]
                result[homes[function]]["functions"][function] = spell(target(target(die)))
            elif die.tag == "DW_TAG_enumeration_type":
                for child in die.iter_children():
                    constant = name_of(child).removeprefix(PREFIX)
                    home = header if header in result else homes.get(constant)
                    if home:
                        result[home]["constants"][constant] = value(child, "DW_AT_const_value")
            elif header in result and die.tag == "DW_TAG_structure_type" and name and value(die, "DW_AT_byte_size") is not None:
                fields = dict(fields_of(die))
                first = next(iter(fields.items()), None)
                grows = first is not None and first[0] == "size" and first[1][2] == "uint32_t"
                result[header]["structs"][name] = (value(die, "DW_AT_byte_size"), grows, fields)
            elif header in result and die.tag == "DW_TAG_typedef" and name.startswith("tenon_"):
                aliased = target(die)
                if aliased is not None and aliased.tag in ("DW_TAG_pointer_type", "DW_TAG_base_type", "DW_TAG_typedef", "DW_TAG_const_type"):
                    result[header]["types"][name] = spell(aliased)
    return result


def header_of(program, number):
    """The header of a file of debug information: "op" of tenon/op.h, "tenon" of tenon/api/tensors.h."""
    entry = program["file_entry"][number - 1]
    folder = program["include_directory"][entry.dir_index - 1].decode() if entry.dir_index else ""
    return "tenon" if folder.endswith("tenon/api") else os.path.basename(entry.name).decode()[:-2]


def fields_of(struct, prefix="", base=0):
    for member in struct.iter_children():
        if member.tag != "DW_TAG_member":
            continue
        kind, name = target(member), prefix + name_of(member)
        offset = base + (value(member, "DW_AT_data_member_location") or 0)
        yield name, (offset, size_of(kind), spell(kind))
        inner = kind
        while inner is not None and inner.tag in ("DW_TAG_const_type", "DW_TAG_array_type"):
            inner = target(inner)
        if inner is not None and inner.tag in ("DW_TAG_structure_type", "DW_TAG_union_type") and not name_of(inner):
            yield from fields_of(inner, name + ".", offset)


def value(die, attribute):
    found = die.attributes.get(attribute)
    return found.value if found else None


def name_of(die):
    found = value(die, "DW_AT_name")
    return found.decode() if found else ""


def target(die):
    return die.get_DIE_from_attribute("DW_AT_type") if "DW_AT_type" in die.attributes else None


def bounds_of(array):
    for child in array.iter_children():
        if child.tag == "DW_TAG_subrange_type":
            upper, count = value(child, "DW_AT_upper_bound"), value(child, "DW_AT_count")
            yield count if count is not None else upper + 1 if upper is not None else 0


def size_of(kind):
    if kind.tag == "DW_TAG_array_type":
        size = size_of(target(kind))
        for bound in bounds_of(kind):
            size *= bound
        return size
    size = value(kind, "DW_AT_byte_size")
    return size if size is not None else size_of(target(kind))


def spell(kind, inner=""):
    """A type as C writes it, around `inner`."""
    def put(text):
        return f"{text} {inner}" if inner and inner[0] not in "[" else text + inner
    if kind is None:
        return put("void")
    if kind.tag in ("DW_TAG_typedef", "DW_TAG_base_type"):
        return put(name_of(kind))
    if kind.tag in ("DW_TAG_structure_type", "DW_TAG_union_type", "DW_TAG_enumeration_type"):
        word = kind.tag.split("_")[2].replace("structure", "struct").replace("enumeration", "enum")
        return put(f"{word} {name_of(kind)}".strip())
    to = target(kind)
    if kind.tag in ("DW_TAG_const_type", "DW_TAG_restrict_type", "DW_TAG_volatile_type"):
        word = kind.tag.split("_")[2]
        if to is not None and to.tag == "DW_TAG_pointer_type":
            return spell(to, f"{word} {inner}".strip())
        return f"{word} {spell(to, inner)}"
    if kind.tag == "DW_TAG_pointer_type":
        outer = f"*{inner}"
        return spell(to, f"({outer})" if to is not None and to.tag in ("DW_TAG_subroutine_type", "DW_TAG_array_type") else outer)
    if kind.tag == "DW_TAG_array_type":
        return spell(to, inner + "".join(f"[{bound}]" for bound in bounds_of(kind)))
    if kind.tag == "DW_TAG_subroutine_type":
        of = [spell(target(child)) if child.tag == "DW_TAG_formal_parameter" else "..." for child in kind.iter_children()]
        return spell(to, f"{inner}({', '.join(of) or 'void'})")
    raise Problem(f"a type of debug information that is not known: {kind.tag}")


# ---- as a text --------------------------------------------------------------------------------------------------------

TITLES = {"constants": "constant", "types": "type", "functions": "function"}


def text(header, layout):
    lines = [f"# tenon/{header}.h: what crosses.  Written by `make abi-update`, checked by `scripts/test.sh build abi`; see docs/compatibility.md.",
             "# struct NAME SIZE, fields: OFFSET SIZE NAME TYPE"]
    for name, (size, grows, fields) in sorted(layout["structs"].items()):
        lines += ["", f"struct {name} {size} {'grows' if grows else 'frozen'}"]
        lines += [f"  {offset:4} {size:4} {field:24} {kind}" for field, (offset, size, kind) in fields.items()]
    for key, title in TITLES.items():
        entries = layout[key].items() if key == "constants" else sorted(layout[key].items())
        lines += [""] + [f"{title} {name} = {entry}" for name, entry in entries] if layout[key] else []
    return "\n".join(lines) + "\n"


def parse(lines):
    layout = {"structs": {}, "constants": {}, "types": {}, "functions": {}}
    keys = {title: key for key, title in TITLES.items()}
    for line in lines.splitlines():
        words = line.split(None, 3)
        if not words or line.startswith("#"):
            continue
        if words[0] == "struct":
            fields = {}
            layout["structs"][words[1]] = (int(words[2]), words[3] == "grows", fields)
        elif line.startswith(" "):
            fields[words[2]] = (int(words[0]), int(words[1]), words[3])
        else:
            key = keys[words[0]]
            layout[key][words[1]] = int(words[3]) if key == "constants" else line.split(" = ", 1)[1]
    return layout


# ---- compared ---------------------------------------------------------------------------------------------------------


def differences(header, old, new):
    """What breaks those who were built with the old one; each names the field."""
    for name, (size, grows, fields) in old["structs"].items():
        if name not in new["structs"]:
            yield f"{header}.h: {name}: removed"
            continue
        now_size, _, now = new["structs"][name]
        kept = True
        for field, was in fields.items():
            if field not in now:
                yield f"{header}.h: {name}.{field}: removed"
                continue
            for what, before, after in zip(("offset", "size", "type"), was, now[field]):
                if before != after:
                    kept = False
                    yield f"{header}.h: {name}.{field}: {what} was {before}, is {after}"
        for field, (offset, _, _) in now.items():
            if field in fields:
                continue
            if not grows:
                yield f"{header}.h: {name}.{field}: added, but the structure has no size and never changes"
            elif offset < size:
                last = max(at + of for at, of, _ in fields.values())
                where = f"where {size - last} bytes of padding were, which count as there for who was built before" if offset >= last else "in the middle"
                yield f"{header}.h: {name}.{field}: added at {offset}, {where}: structures grow at the end, from {size} on"
        if kept and now_size != size and (now_size < size or not set(now) - set(fields)):
            yield f"{header}.h: {name}: size was {size}, is {now_size}"
    for key, title in TITLES.items():
        for name, was in old[key].items():
            if name in VERSIONS.values():
                if name not in new[key] or new[key][name] < was or new[key][name] >> 16 != was >> 16:
                    yield f"{header}.h: {name}: was {was:#x}, is {new[key].get(name, 0):#x}: a minor version only grows"
            elif name not in new[key]:
                yield f"{header}.h: {title} {name}: removed"
            elif new[key][name] != was:
                yield f"{header}.h: {title} {name}: was {was}, is {new[key][name]}"


def growth(old, new):
    """Names of what was added."""
    for name, (_, _, fields) in new["structs"].items():
        if name not in old["structs"]:
            yield name
        else:
            yield from (f"{name}.{field}" for field in fields if field not in old["structs"][name][2])
    for key in TITLES:
        yield from (name for name in new[key] if name not in old[key])


# ---- as a C file ------------------------------------------------------------------------------------------------------


def asserts(every):
    lines = ["/* The layouts of abi/, for any C compiler: it compiles as long as they hold.  Written by `make abi-update`. */",
             "#include <stddef.h>"] + [f"#include <tenon/{header}.h>" for header in every]
    lines += ["#define TYPED(what, type) __builtin_types_compatible_p(__typeof__(what), type)",
              "#define FIELD(s, f, at, bytes, type) \\",
              "  _Static_assert(offsetof(s, f) == at && sizeof(((s *)0)->f) == bytes && TYPED(((s *)0)->f, type), #s \".\" #f)",
              "#define PART(s, f, at, bytes) _Static_assert(offsetof(s, f) == at && sizeof(((s *)0)->f) == bytes, #s \".\" #f)",
              "#define SIZE(s, bytes) _Static_assert(sizeof(s) == bytes, #s)",
              "#define IS(name, value) _Static_assert((name) == (value), #name)",
              "#define FUNCTION_IS(name, type) _Static_assert(TYPED(name, type), #name)"]
    for header, layout in every.items():
        lines.append(f"\n/* {header}.h */")
        for name, (size, _, fields) in sorted(layout["structs"].items()):
            lines.append(f"SIZE({name}, {size});")
            for field, (offset, bytes_, kind) in fields.items():
                anonymous = kind in ("union", "struct")
                lines.append(f"PART({name}, {field}, {offset}, {bytes_});" if anonymous else f"FIELD({name}, {field}, {offset}, {bytes_}, {kind});")
        lines += [f"IS({name}, {number_text(number)});" for name, number in layout["constants"].items()]
        lines += [f"_Static_assert(__builtin_types_compatible_p({name}, {kind}), \"{name}\");" for name, kind in sorted(layout["types"].items())]
        lines += [f"FUNCTION_IS({name}, {kind});" for name, kind in sorted(layout["functions"].items())]
    return "\n".join(lines) + "\n"


def number_text(number):
    return f"({number + 1} - 1)" if number < 0 else f"{number:#x}u" if number > 0x7fffffff else str(number)
