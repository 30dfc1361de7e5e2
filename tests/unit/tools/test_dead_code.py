"""What nothing uses is found, and what a framework or a file of settings names is not."""

from pathlib import Path

from tools.dead_code import unused


def test_what_nothing_uses_is_found(tmp_path: Path) -> None:
    (tmp_path / "console").mkdir()
    (tmp_path / "pyproject.toml").write_text('entry = "shop.main:named"')
    (tmp_path / "shop").mkdir()
    (tmp_path / "shop/main.py").write_text(
        "def used(): ...\ndef idle(): ...\ndef named(): ...\nclass ShopConfig: ...\n"
        "class Cart:\n    @property\n    def total(self): ...\n    def patch(self): ...\nused(), Cart()\n"
        "def again(depth): return again(depth - 1)\ndef walk(depth): return walk(depth - 1)\nwalk(1)\n"
    )
    assert list(unused(("shop",), tmp_path)) == [
        "shop/main.py:2: nothing uses the function idle",
        "shop/main.py:6: nothing uses the property total",
        "shop/main.py:10: nothing but itself uses the function again",
    ]


def test_the_product_has_none() -> None:
    assert not list(unused())
