from ._attention import Attention as Attention, alibi_slopes as alibi_slopes
