#!/usr/bin/env python
"""Django's entry."""

from console.manage import main

if __name__ == "__main__":
    main()
