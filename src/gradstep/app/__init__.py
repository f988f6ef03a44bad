"""The interactive page: ``gradstep app``. A small JSON server on this machine and static files, nothing from elsewhere.

`settings` turns what the page sends into problems, `answers`, `simulation` and `presets` compute, `workers` are the
processes they run in, `server` puts them behind addresses.
"""
