from ._jobs import Cancelled as Cancelled, Report as Report
from ._state import Control as Control, FieldError as FieldError, State as State
from ._views import VIEWS as VIEWS, View as View
