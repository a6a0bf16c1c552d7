from ._state import Control as Control, State as State
from ._views import VIEWS as VIEWS, Part as Part, View as View
