"""A network beside its limit."""

import numpy as np
import pytest

from limitlaw._checks import ArgumentError
from limitlaw.distances import compare_with_limit
from limitlaw.laws import Gaussian


class WithoutLimit:
    """A network with a layer that is refused at infinite width, with an error about one of its arguments."""

    def __init__(self, argument):
        self.argument = argument

    def law(self, *, width, **options):
        if width == np.inf:
            raise ArgumentError(self.argument, f"{self.argument} has no limit.")
        return Gaussian(variance=2.0, name=f"width {width}")


def test_a_network_without_a_limit_is_compared_with_a_gaussian():
    found = compare_with_limit(WithoutLimit("matrices"), width=8)
    assert found.names == ("width 8", "Gaussian")
    assert found.laws[1].variance() == 2.0
    with pytest.raises(ArgumentError, match="heads has no limit"):
        compare_with_limit(WithoutLimit("heads"), width=8)
