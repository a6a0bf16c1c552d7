"""The law of one attention layer at a few widths, and in the limit."""

from math import inf

import limitlaw as ll

net = ll.Network(ll.Inputs(tokens=4, activation=ll.clip(100.0)), ll.Attention(heads=2))
for width in (16, 256, inf):
    law = net.law(width=width, samples=2**20)
    print(f"width {width:>4}: variance {law.variance()}, excess kurtosis {law.kurtosis()}")
