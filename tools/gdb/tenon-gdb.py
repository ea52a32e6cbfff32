"""gdb support for Tenon: pretty-printers for tensors, dtypes, extents, values, operators, statuses and calls, and the commands

    tenon call            show the operator that runs in this thread, its arguments, and the calls that led to it
    tenon step            step to the next line, or into an operator that this line calls (one that TENON_USES names)
    tenon ops [REGEX]     list registered operators (needs a live process)
    tenon tensor EXPR     show a tensor with its values

An installation loads this file automatically (share/gdb/auto-load); otherwise use `source tenon-gdb.py`.  Memory is read by the
frozen layouts of tenon/op.h, so neither libraries nor libtenon need debug information.
"""
import re
import struct

import gdb
import gdb.printing

STATUSES = ["OK", "CANCELLED", "UNKNOWN", "INVALID", "DEADLINE", "NOT_FOUND", "EXISTS", "DENIED", "MEMORY", "PRECONDITION",
            "ABORTED", "RANGE", "UNIMPLEMENTED", "INTERNAL", "UNAVAILABLE"]
PHASES = ["", "open", "validate", "create", "infer", "prepare", "run", "loop", "device", "bridge", "pass"]
FLOATS8 = {7: "f8e3m4", 8: "f8e4m3", 9: "f8e4m3b11fnuz", 10: "f8e4m3fn", 11: "f8e4m3fnuz", 12: "f8e5m2", 13: "f8e5m2fnuz",
           14: "f8e8m0", 15: "f6e2m3", 16: "f6e3m2", 17: "f4e2m1"}
VALUES_MOST = 8  # elements that are printed of a tensor
LEAST_DIM = -(1 << 62)


def read(address, size):
    return bytes(gdb.selected_inferior().read_memory(int(address), size))


def unpack(layout, address):
    return struct.unpack(layout, read(address, struct.calcsize(layout)))


def call_function(expression):
    """Calls a function of the process.  gdb 13 cannot do this on processors with AMX, since it does not know their registers."""
    try:
        return gdb.parse_and_eval(expression)
    except gdb.error as error:
        raise gdb.GdbError(f"gdb cannot call functions of this process ({error}): use a newer gdb, or `break FUNCTION` and `continue`") from None


def text(address, most=400):
    out = b""
    while address and len(out) < most:
        byte = read(address + len(out), 1)
        if byte == b"\0":
            break
        out += byte
    return out.decode("utf-8", "replace")


def address_of(value):
    return int(value) if value.type.strip_typedefs().code == gdb.TYPE_CODE_PTR else int(value.address)


class Layout:
    """Offsets in libtenon's own structures, which it exports as tenon_debug_layout."""

    def __init__(self):
        at = int(gdb.parse_and_eval("(unsigned long)&tenon_debug_layout"))
        magic, self.host, count = unpack("<16sQI", at)
        if not magic.startswith(b"tenon debug 1"):
            raise gdb.GdbError("libtenon and tenon-gdb.py have different versions")
        (self.name, self.schema, self.input_count, self.inputs, self.attr_count, self.attrs, self.output_count, self.outputs,
         self.argument_size, self.library, self.path, self.choices, self.uses,
         self.use_count) = unpack(f"<{count}I", at + 28)


def dtype_name(code, bits, lanes):
    if (code, bits) == (6, 8):
        name = "bool"
    elif code in (200, 201):
        name = {200: "string", 201: "list"}[code]
    elif code in FLOATS8:
        name = FLOATS8[code]
    elif code in (0, 1, 2, 4, 5):
        name = {0: "i", 1: "u", 2: "f", 4: "bf", 5: "c"}[code] + str(bits)
    else:
        name = f"dtype {code}:{bits}"
    return name if lanes in (0, 1) else f"{name}x{lanes}"


def dim_name(value):
    return str(value) if value >= LEAST_DIM else f"s{value - (-(1 << 63))}"


class Tensor:
    def __init__(self, address):
        self.address = address
        (self.data, self.device_type, self.device_id, self.ndim, code, bits, lanes, shape, strides, _, self.keys,
         self.detail) = unpack("<QiiiBBHQQQQQ", address)
        if not 0 <= self.ndim <= 64:
            raise gdb.MemoryError(f"there is no tensor at {address:#x}")
        self.code, self.bits, self.dtype = code, bits, dtype_name(code, bits, lanes)
        self.shape = unpack(f"<{self.ndim}q", shape) if self.ndim else ()
        self.strides = unpack(f"<{self.ndim}q", strides) if self.ndim else ()

    def count(self):
        n = 1
        for extent in self.shape:
            n *= extent
        return n

    def is_dense(self):
        step = 1
        for extent, stride in reversed(list(zip(self.shape, self.strides))):
            if extent > 1 and stride != step:
                return False
            step *= extent
        return True

    def element(self, index):
        at = 0
        for extent, stride in reversed(list(zip(self.shape, self.strides))):
            at, index = at + index % extent * stride, index // extent
        if self.code == 200:
            data, size = unpack("<QQ", self.data + 16 * at)
            return repr(read(data, min(size, 60)).decode("utf-8", "replace")) if size else "''"
        if self.code == 201:
            return str(Tensor(unpack("<Q", self.data + 8 * at)[0]))
        if self.bits < 8:
            first = at * self.bits
            word, = unpack("<H", self.data + first // 8) if first % 8 + self.bits > 8 else unpack("<B", self.data + first // 8)
            value = word >> first % 8 & (1 << self.bits) - 1
            return str(value - (1 << self.bits) if self.code == 0 and value >> self.bits - 1 else value)
        raw = read(self.data + at * self.bits // 8, self.bits // 8)
        if self.code == 6:
            return str(bool(raw[0]))
        if self.code == 4:
            number, = struct.unpack("<f", bytes(2) + raw)
            return f"{number:g}"
        forms = {(2, 16): "<e", (2, 32): "<f", (2, 64): "<d", (5, 64): "<ff", (5, 128): "<dd"}
        if (self.code, self.bits) in forms:
            numbers = struct.unpack(forms[self.code, self.bits], raw)
            return f"{numbers[0]:.7g}" if len(numbers) == 1 else f"{numbers[0]:.7g}{numbers[1]:+.7g}i"
        if self.code in (0, 1):
            return str(int.from_bytes(raw, "little", signed=self.code == 0))
        return "0x" + raw[::-1].hex()

    def values(self, most=VALUES_MOST):
        if not self.data or self.device_type != 1 or not self.count():
            return "" if self.data or self.device_type != 1 or not self.count() else " (no memory)"
        shown = [self.element(i) for i in range(min(self.count(), most))]
        return " {" + ", ".join(shown) + (", ..." if self.count() > most else "") + "}"

    def __str__(self):
        device = "" if self.device_type == 1 else f" on device {self.device_type}:{self.device_id}"
        layout = "" if self.is_dense() else f" strides {list(self.strides)}"
        detail = {0: "", 1: " quantised", 2: " csr", 3: " row_sparse"}
        kind = detail.get(unpack("<II", self.detail)[1] if self.detail else 0, " ?")
        try:
            values = self.values()
        except gdb.MemoryError:
            values = f" (memory at {self.data:#x} cannot be read)"
        return f"{self.dtype}{list(self.shape)}{layout}{device}{kind}{values}"


def tensor_text(address):
    return str(Tensor(address)) if address else "None"


def value_text(address, choices=0):
    kind, count, word = unpack("<IIQ", address)
    signed = struct.unpack("<q", struct.pack("<Q", word))[0]
    if kind == 0:
        return "None"
    if kind == 1:
        return str(bool(word))
    if kind in (2, 3):
        return dim_name(signed)
    if kind == 4:
        return repr(struct.unpack("<d", struct.pack("<Q", word))[0])
    if kind == 5:
        return repr(text(word))
    if kind == 6:
        return repr(text(unpack("<Q", choices + 8 * signed)[0])) if choices else f"choice {signed}"
    if kind == 7:
        return dtype_name(word & 255, word >> 8 & 255, word >> 16 & 65535)
    if kind == 8:
        return "cpu" if word & 0xffffffff == 1 else f"device {word & 0xffffffff}:{word >> 32}"
    if kind == 9:
        return tensor_text(word)
    if kind == 10:
        return f"graph at {word:#x}"
    shown = min(count, 16)
    if kind in (11, 12):
        items = [dim_name(i) for i in unpack(f"<{shown}q", word)]
    elif kind == 13:
        items = [repr(i) for i in unpack(f"<{shown}d", word)]
    elif kind == 14:
        items = [repr(text(unpack("<Q", word + 16 * i)[0])) for i in range(shown)]
    elif kind == 15:
        items = [tensor_text(i) for i in unpack(f"<{shown}Q", word)]
    else:
        return f"value of kind {kind}"
    return "[" + ", ".join(items) + (", ...]" if count > shown else "]")


def op_name(op, layout=None):
    layout = layout or Layout()
    return text(unpack("<Q", op + layout.name)[0])


def op_arguments(layout, op, count_at, list_at):
    count, = unpack("<I", op + count_at)
    first, = unpack("<Q", op + list_at)
    return [(text(unpack("<Q", first + i * layout.argument_size)[0]), first + i * layout.argument_size) for i in range(count)]


def call_lines(address):
    """Describes the argument of a library function: tenon_call_t, or a structure with the same first members."""
    layout = Layout()
    size, phase, host, op, attrs = unpack("<IIQQQ", address)
    lines = [f"{op_name(op, layout)} ({PHASES[phase] if phase < len(PHASES) else phase})"]
    if phase == 6:
        inputs, outputs = unpack("<QQ", address + 48)
        for i, (name, _) in enumerate(op_arguments(layout, op, layout.input_count, layout.inputs)):
            lines.append(f"  input {name} = {tensor_text(unpack('<Q', inputs + 8 * i)[0])}")
    for i, (name, argument) in enumerate(op_arguments(layout, op, layout.attr_count, layout.attrs)):
        lines.append(f"  attribute {name} = {value_text(attrs + 16 * i, unpack('<Q', argument + layout.choices)[0])}")
    if phase == 6:
        for i, (name, _) in enumerate(op_arguments(layout, op, layout.output_count, layout.outputs)):
            lines.append(f"  result {name} = {tensor_text(unpack('<Q', outputs + 8 * i)[0])}")
    if phase == 7:
        count, = unpack("<q", address + 48)
        lines.append(f"  count = {count}")
    library, = unpack("<Q", op + layout.library)
    path = text(unpack("<Q", library + layout.path)[0]) if library else ""
    lines.append(f"  library {path or '(linked in)'}")
    return lines


def is_call(address, host):
    """Whether the address holds a size, a phase, the host and an operator."""
    try:
        size, phase, found, op = unpack("<IIQQ", address)
        return found == host and 2 <= phase <= 7 and 32 <= size <= 4096 and "::" in op_name(op)
    except (gdb.MemoryError, gdb.error):
        return False


def calls_of_frames():
    """Returns the calls among the arguments of this thread's frames that have debug information, and whether the compiler has
    optimised others away."""
    frame, found, lost = gdb.selected_frame(), [], False
    kinds = {"tenon_call_t", "tenon_loop_t", "tenon_infer_t", "tenon_node_t"}
    while frame:
        try:
            block = frame.block()
        except RuntimeError:
            block = None
        for symbol in block or ():
            target = symbol.type.strip_typedefs() if symbol.is_argument else None
            if not target or target.code != gdb.TYPE_CODE_PTR or target.target().unqualified().name not in kinds:
                continue
            value = symbol.value(frame)
            lost = lost or value.is_optimized_out
            if not value.is_optimized_out and int(value) and int(value) not in found:
                found.append(int(value))
        frame = frame.older()
    return found, lost


def calls_of_stack():
    """Finds calls by searching the stack for call structures and for pointers to them."""
    host, found, sp = Layout().host, [], int(gdb.selected_frame().read_register("sp")) & ~7
    for start in range(sp, sp + (1 << 20), 4096):
        try:
            words = struct.unpack("<513Q", read(start, 4104))
        except gdb.MemoryError:
            break
        for i in range(512):
            for address in ([start + 8 * i] if words[i + 1] == host else [words[i]] if words[i] > 65536 and not words[i] & 7 else []):
                if address not in found and is_call(address, host):
                    found.append(address)
    return found


class TenonCommand(gdb.Command):
    """Tenon's commands: tenon call, tenon step, tenon ops, tenon tensor."""

    def __init__(self):
        super().__init__("tenon", gdb.COMMAND_DATA, gdb.COMPLETE_NONE, True)


class TenonCall(gdb.Command):
    """Show the operator that runs in this thread, with its arguments, and the calls that led to it, innermost first."""

    def __init__(self):
        super().__init__("tenon call", gdb.COMMAND_STACK)

    def invoke(self, argument, from_tty):
        host = Layout().host
        found, lost = calls_of_frames()
        found = [a for a in found if is_call(a, host)]
        if lost or not found:
            found += [a for a in calls_of_stack() if a not in found]
        if not found:
            raise gdb.GdbError("this thread is not inside an operator")
        for address in found:
            print("\n".join(call_lines(address)))


class TenonStep(gdb.Command):
    """Step to the next line, or into the kernel of an operator that this line calls and TENON_USES names."""

    def __init__(self):
        super().__init__("tenon step", gdb.COMMAND_RUNNING)

    def invoke(self, argument, from_tty):
        layout = Layout()
        found = [a for a in calls_of_frames()[0] if is_call(a, layout.host)]
        if not found:
            raise gdb.GdbError("this thread is not inside an operator")
        op, = unpack("<Q", found[0] + 16)
        uses, count = unpack("<Q", op + layout.uses)[0], unpack("<I", op + layout.use_count)[0]
        stops = [gdb.Breakpoint(f"*{at:#x}", internal=True) for at in map(self.kernel, unpack(f"<{count}Q", uses)) if at]
        for stop in stops:
            stop.silent = True
        try:
            gdb.execute("next", to_string=True)
            if gdb.selected_inferior().pid and any(stop.is_valid() and stop.hit_count for stop in stops):
                gdb.execute("next", to_string=True)  # past the prologue of the function
            gdb.execute("frame")
        finally:
            for stop in stops:
                if stop.is_valid():
                    stop.delete()

    @staticmethod
    def kernel(op):
        """Returns the function of the CPU kernel, found by tenon_op_slot."""
        room = int(call_function("((void *(*)(unsigned long))malloc)(64)"))
        gdb.selected_inferior().write_memory(room, struct.pack("<I", 56) + bytes(60))
        gdb.selected_inferior().write_memory(room + 60, b"cpu\0")
        failed = int(call_function(f"((int (*)(void *, void *, void *))tenon_op_slot)((void *){op}, (void *){room + 60}, (void *){room})"))
        function, = unpack("<Q", room + 48)
        call_function(f"((void (*)(void *))free)((void *){room})")
        return 0 if failed else function


class TenonOps(gdb.Command):
    """List registered operators with their schemas: tenon ops [REGEX].  Calls functions of the process."""

    def __init__(self):
        super().__init__("tenon ops", gdb.COMMAND_DATA)

    def invoke(self, argument, from_tty):
        layout, wanted = Layout(), re.compile(argument.strip() or ".")
        room = int(call_function("((void *(*)(unsigned long))malloc)(16)"))
        call_function(f"((int (*)(void *, void *))tenon_ops_list)((void *){room}, (void *){room + 8})")
        ops, count = unpack("<Qi", room)
        for op in unpack(f"<{count}Q", ops):
            if wanted.search(op_name(op, layout)):
                print(f"{op_name(op, layout)}  {text(unpack('<Q', op + layout.schema)[0], 2000)}")
        call_function(f"((void (*)(void *))tenon_ops_release)((void *){ops})")
        call_function(f"((void (*)(void *))free)((void *){room})")


class TenonTensor(gdb.Command):
    """Show a tensor with up to a thousand values: tenon tensor EXPR."""

    def __init__(self):
        super().__init__("tenon tensor", gdb.COMMAND_DATA, gdb.COMPLETE_EXPRESSION)

    def invoke(self, argument, from_tty):
        address = address_of(gdb.parse_and_eval(argument))
        if not address:
            print("None")
            return
        tensor = Tensor(address)
        print(tensor)
        print(tensor.values(1000).strip())


class Printer:
    def __init__(self, function, value):
        self.function, self.value = function, value

    def to_string(self):
        try:
            return self.function(self.value)
        except (gdb.MemoryError, gdb.error) as error:
            return f"({error})"


def pointer_to(name, function):
    """Prints pointers to opaque structures."""
    return lambda value: f"{function(int(value))}" if int(value) else "NULL"


def of_meta(value):
    ndim, dims = int(value["ndim"]), int(value["dims"])
    shape = "?" if ndim < 0 else "[" + ", ".join(dim_name(d) for d in unpack(f"<{ndim}q", dims) if ndim) + "]"
    return f"{of_dtype(value['dtype'])}{shape}"


def of_dtype(value):
    return dtype_name(int(value["code"]), int(value["bits"]), int(value["lanes"]))


def of_status(value):
    number = int(value)
    return f"TENON_{STATUSES[number]}" if 0 <= number < len(STATUSES) else str(number)


def of_string(value):
    return repr(read(int(value["data"]), min(int(value["size"]), 200)).decode("utf-8", "replace")) if int(value["size"]) else "''"


PRINTERS = {
    "tenon_tensor_t": lambda value: str(Tensor(int(value.address))),
    "tenon_dtype_t": of_dtype,
    "tenon_dim_t": lambda value: dim_name(int(value["value"])),
    "tenon_value_t": lambda value: value_text(int(value.address)),
    "tenon_string_t": of_string,
    "tenon_status_t": of_status,
    "tenon_meta_t": of_meta,
    "tenon_device_t": lambda value: "cpu" if int(value["type"]) == 1 else f"device {int(value['type'])}:{int(value['id'])}",
    "tenon_call_t": lambda value: "\n".join(call_lines(int(value.address))),
}
POINTERS = {
    "tenon_tensor_t": tensor_text,
    "tenon_op_t": lambda address: f"operator {op_name(address)}",
    "tenon_meta_t": lambda address: of_meta(gdb.Value(address).cast(gdb.lookup_type("tenon_meta_t").pointer()).dereference()),
}


class Printers(gdb.printing.PrettyPrinter):
    def __init__(self):
        super().__init__("tenon")

    def __call__(self, value):
        kind = value.type
        while kind.code == gdb.TYPE_CODE_TYPEDEF:
            if kind.name in PRINTERS:
                return Printer(PRINTERS[kind.name], value)
            kind = kind.target().unqualified()
        if kind.name in PRINTERS:
            return Printer(PRINTERS[kind.name], value)
        if kind.code != gdb.TYPE_CODE_PTR:
            return None
        target = kind.target().unqualified()
        return Printer(pointer_to(target.name, POINTERS[target.name]), value) if target.name in POINTERS else None


gdb.printing.register_pretty_printer(None, Printers(), replace=True)
for command in TenonCommand, TenonCall, TenonStep, TenonOps, TenonTensor:
    command()
