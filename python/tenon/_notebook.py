"""The HTML that notebooks show for a tensor."""
from . import _core
from ._picture import cut, escape

ROWS, COLUMNS = 8, 10


def _corner(tensor):
    """Returns rows of texts and a note on which elements they show; or None and the reason why no values are shown.

    Values on a device are copied to the CPU only if the tensor is small.
    """
    if tensor.indices is not None:
        return None, f"{tensor.layout}, {tensor.indices.size} stored"
    if tensor.device != "cpu" and tensor.size > 1000:
        return None, f"the values are on {tensor.device}: call x.to('cpu') to see them"
    try:
        array = tensor.numpy()
    except (ImportError, _core.Error):
        return None, "install NumPy to see the values"
    if isinstance(array, _core.Tensor):
        return None, f"NumPy has no type for {tensor.dtype}"
    where = ""
    if array.ndim > 2 and array.size:
        where = f"[{', '.join('0' for _ in range(array.ndim - 2))}, :, :]"
    while array.ndim > 2 and array.size:
        array = array[0]
    if array.ndim > 2:
        return [], ""
    rows = array.reshape(1, -1) if array.ndim < 2 else array
    texts = [[str(item) for item in row[:COLUMNS]] + ["…"] * (rows.shape[1] > COLUMNS) for row in rows[:ROWS]]
    if rows.shape[0] > ROWS:
        texts.append(["…"] * len(texts[0]))
    return texts, where


def tensor(self):
    """Returns the dtype, the shape, the device and the first values of a tensor as HTML."""
    rows, words = _corner(self)
    shape = ", ".join(map(str, self.shape))
    head = f"<div><b>tenon.Tensor</b> {escape(self.dtype)}[{shape}], {escape(self.device)}" + (f" <i>{escape(words)}</i>" if words else "") + "</div>"
    cells = ("<tr>" + "".join(f'<td style="text-align: right">{escape(cut(text, 40))}</td>' for text in row) + "</tr>" for row in rows or ())
    return head + (f"<table>{''.join(cells)}</table>" if rows else "")
