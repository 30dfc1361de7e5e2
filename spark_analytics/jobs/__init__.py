"""Jobs: what is in the lake, put through transforms, into the console's summary tables. `manage.py analytics` runs them."""
