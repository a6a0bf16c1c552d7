from ._page import page as page
from ._provenance import Provenance as Provenance
from ._reproduction import Reproduction as Reproduction
from ._study_page import write_study_page as write_study_page
