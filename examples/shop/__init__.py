"""The demo: an online shop that makes a system look lived in. `python -m examples.shop` loads it through public interfaces."""
