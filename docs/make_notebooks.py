"""The tutorials as executed notebooks: `python docs/make_notebooks.py` writes `examples/notebooks`."""

import doctest
import itertools
import re
from collections.abc import Iterator
from pathlib import Path

_HERE = Path(__file__).parent
_NOTEBOOKS = _HERE.parent / "examples" / "notebooks"
_BLOCK = re.compile(r"```python\n(.*?)```\n", re.DOTALL)
_DRAWS = "_ = "
_LINK = re.compile(r"\{doc\}`([^`<]*?)\s*<?([^`<>]*)>?`")


def tutorials() -> dict[str, str]:
    """The text of every tutorial by its name, in their order."""
    order = re.findall(r"^(\w+)$", (_HERE / "tutorials" / "index.md").read_text(encoding="utf-8"), re.MULTILINE)
    return {name: (_HERE / "tutorials" / f"{name}.md").read_text(encoding="utf-8") for name in order}


def cells(text: str) -> Iterator[tuple[str, str]]:
    """Prose and code in turn, as ("markdown", text) and ("code", text); what the page shows as output is left to the kernel."""
    for i, part in enumerate(_BLOCK.split(text)):
        if i % 2:
            yield from (("code", source) for source, _ in steps(part))
        elif part.strip():
            yield "markdown", _as_plain_markdown(part.strip())


def steps(block: str) -> Iterator[tuple[str, str]]:
    """The code of a block up to each output, with that output: a notebook shows only what the last line of a cell says.

    What draws (`_ = law.plot()`) ends a cell too, with all that is drawn on the same axes: its picture comes next.
    """
    examples = doctest.DocTestParser().get_examples(block)
    source = ""
    for example, following in itertools.zip_longest(examples, examples[1:]):
        source += example.source
        drawn = example.source.startswith(_DRAWS) and not (following and following.source.startswith(_DRAWS))
        if example.want or drawn:
            yield source.strip(), example.want.strip()
            source = ""
    if source:
        yield source.strip(), ""


def _as_plain_markdown(text: str) -> str:
    """Links and pictures as a notebook shows them: pages by their names, pictures from the folder of the documentation."""
    named = _LINK.sub(lambda match: match[1] or match[2].rsplit("/", 1)[-1].replace("_", " "), text)
    return named.replace("](../figures/", "](../../docs/figures/")


def main() -> None:
    import nbclient
    import nbformat

    _NOTEBOOKS.mkdir(parents=True, exist_ok=True)
    for name, text in tutorials().items():
        notebook = nbformat.v4.new_notebook(
            metadata={"kernelspec": {"name": "python3", "display_name": "Python 3", "language": "python"}}
        )
        for i, (kind, source) in enumerate(cells(text)):
            make = nbformat.v4.new_code_cell if kind == "code" else nbformat.v4.new_markdown_cell
            notebook.cells.append(make(source, id=f"{name}-{i}"))
        nbclient.NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(_HERE)}}).execute()
        for cell in notebook.cells:
            cell.metadata.clear()  # when it was run says nothing
        nbformat.write(notebook, _NOTEBOOKS / f"{name}.ipynb")


if __name__ == "__main__":
    main()
