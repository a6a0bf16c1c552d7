from . import _convergence as convergence

__all__ = ["convergence"]
