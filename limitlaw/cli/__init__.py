from ._app import app as app, main as main
