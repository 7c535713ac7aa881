"""One folder per destination: ``options.py`` what may be set, ``encode.py`` the form, ``sink.py`` the sending."""
