from ._page import page as page
from ._provenance import Provenance as Provenance
from ._reproduction import Reproduction as Reproduction
