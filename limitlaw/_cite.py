"""References to cite."""

from typing import Any

from . import __version__
from ._checks import ArgumentTypeError

_ENTRIES = {
    "limitlaw": f"""@software{{limitlaw,
  title = {{limitlaw: exact laws of attention networks at initialisation}},
  author = {{{{The limitlaw developers}}}},
  version = {{{__version__}}},
}}""",
    "attention": """@inproceedings{sakai2025infinite,
  title = {Infinite-Width Limit of a Single Attention Layer: Analysis via Tensor Programs},
  author = {Sakai, Mana and Karakida, Ryo and Imaizumi, Masaaki},
  booktitle = {Advances in Neural Information Processing Systems 38 (NeurIPS 2025)},
  year = {2025},
  eprint = {2506.00846},
  archiveprefix = {arXiv},
}""",
    "slr": """@inproceedings{dohmatob2025understanding,
  title = {Understanding Softmax Attention Layers: Exact Mean-Field Analysis on a Toy Problem},
  author = {Dohmatob, Elvis},
  booktitle = {Advances in Neural Information Processing Systems 38 (NeurIPS 2025)},
  year = {2025},
}""",
}


def cite(*used: Any) -> str:
    """The BibTeX entries of the library and of the papers behind objects of it.

    Args:
        *used: Objects, classes, functions or modules of limitlaw, such as a network, its law, a program or a regression
            problem. Without any, the entries of all papers are given.

    Returns:
        The entries, with empty lines between them.

    Raises:
        ArgumentTypeError: If an object is not one of limitlaw.

    Example:
        >>> import limitlaw as ll
        >>> [line for line in ll.cite(ll.slr.Problem(dim=100, tokens=20)).splitlines() if line.startswith("@")]
        ['@software{limitlaw,', '@inproceedings{dohmatob2025understanding,']
        >>> ll.cite().count("@inproceedings")
        2
    """
    names = {"limitlaw", *map(_paper, used)} if used else set(_ENTRIES)
    return "\n\n".join(entry for name, entry in _ENTRIES.items() if name in names)


def _paper(used: Any) -> str:
    """The paper behind an object of this library, found by the package that defines it."""
    module = getattr(used, "__module__", None) or getattr(used, "__name__", "")  # modules have a name alone
    if module.split(".")[0] != "limitlaw":
        raise ArgumentTypeError(
            "used", f"used={used!r} must be an object of limitlaw, such as a network, a law or an slr.Problem."
        )
    return "slr" if module.startswith("limitlaw.slr") else "attention"
