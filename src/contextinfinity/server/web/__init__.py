"""The web page at ``/``: its files, the login by cookie, and markdown rendered to safe HTML."""
