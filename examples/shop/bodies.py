"""What the shop's messages say: JSON as a shop's services would write it, from seeded chance."""

import json
from collections.abc import Callable
from random import Random
from typing import Any

Value = dict[str, Any]

CUSTOMERS = (
    ("陈思远", "上海市徐汇区漕溪北路 88 号", "CN"), ("王丽华", "北京市朝阳区建国路 93 号", "CN"),
    ("张伟", "广州市天河区体育西路 103 号", "CN"), ("李娜", "成都市锦江区春熙路 16 号", "CN"),
    ("赵雨晴", "杭州市西湖区文三路 478 号", "CN"), ("黄志强", "深圳市南山区科苑路 15 号", "CN"),
    ("Emma Thompson", "14 Harbour Lane, Bristol BS1 4QA", "GB"), ("Jonas Weber", "Lindenstraße 27, 10969 Berlin", "DE"),
    ("Amélie Durand", "8 rue des Martyrs, 75009 Paris", "FR"), ("Luca Moretti", "Via Roma 112, 10121 Torino", "IT"),
    ("Olivia Nguyen", "420 Maple Avenue, Portland OR 97205", "US"), ("Søren Kjær", "Vestergade 5, 8000 Aarhus", "DK"),
)  # fmt: skip
PRODUCTS = (
    ("SKU-10021", "龙井茶 250g", 12800), ("SKU-10088", "Cast iron teapot", 4990), ("SKU-11204", "无线降噪耳机", 89900),
    ("SKU-11377", "Trail running shoes", 11900), ("SKU-12050", "竹制砧板", 5900), ("SKU-12611", "Espresso grinder", 24900),
    ("SKU-13090", "儿童绘本套装", 15800), ("SKU-13342", "Linen bed sheet", 7950), ("SKU-14007", "机械键盘 87 键", 39900),
    ("SKU-14410", "Bicycle light set", 3490), ("SKU-15233", "手冲咖啡壶", 16800), ("SKU-15876", "Rain jacket", 12900),
)  # fmt: skip
REGIONS = {"CN": "cn-east", "US": "us-west"}
CARRIERS = ("顺丰速运", "DHL", "中通快递", "UPS", "DPD")
PLACES = ("上海转运中心", "Leipzig hub", "广州白云", "East Midlands", "成都双流", "Portland depot")
FAULTS = ("unknown currency", "no address", "negative amount", "amount is a text", "empty items")
"""What is wrong with a spoiled message."""
SPOILED_SHARE = 0.03


class Bodies:
    """Makes messages. The same seed makes the same ones."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self._order = 480_000
        self._makers: dict[str, Callable[[], Value]] = {
            "order": self._of_order,
            "payment": self._of_payment,
            "parcel": self._of_parcel,
            "product": self._of_product,
            "stock": self._of_stock,
            "customer": self._of_customer,
            "notice": self._of_notice,
            "click": self._of_click,
            "reminder": self._of_reminder,
            "audit": self._of_audit,
        }

    def make(self, kind: str) -> tuple[dict[str, str], tuple[str, ...]]:
        """A message's properties (`data` is its body, the others are for finding it) and tags."""
        value = self._makers[kind]()
        country = value.get("customer", {}).get("country", self._random.choice(CUSTOMERS)[2])
        region = REGIONS.get(country, "eu-central")
        properties = {"region": region, "trace_id": f"{self._random.getrandbits(64):016x}"}
        if kind in ("payment", "customer") and self._random.random() < SPOILED_SHARE:
            properties["fault"] = self._spoil(value)
        for key in ("order_id", "sku", "parcel_id"):
            if key in value:
                properties[key] = str(value[key])
        properties["data"] = json.dumps(value, ensure_ascii=False)
        return properties, (region, *self._tags(value))

    def _tags(self, value: Value) -> tuple[str, ...]:
        found = [str(value[key]) for key in ("channel", "status") if key in value]
        if value.get("total", {}).get("cents", 0) > 100_000:
            found.append("large")
        return tuple(found)

    def _spoil(self, value: Value) -> str:
        fault = self._random.choice(FAULTS)
        amount = value.setdefault("amount", {"cents": 1000, "currency": "EUR"})
        if fault == "unknown currency":
            amount["currency"] = "XBT"
        elif fault == "no address":
            value["address"] = None
        elif fault == "negative amount":
            amount["cents"] = -abs(amount["cents"])
        elif fault == "amount is a text":
            amount["cents"] = "zwölf"
        else:
            value["items"] = []
        return fault

    def _customer(self) -> Value:
        name, address, country = self._random.choice(CUSTOMERS)
        return {
            "id": f"C{self._random.randrange(10_000, 99_999)}",
            "name": name,
            "address": address,
            "country": country,
        }

    def _order_id(self) -> str:
        self._order += self._random.randrange(1, 4)
        return f"A-{self._order}"

    def _of_order(self) -> Value:
        customer = self._customer()
        items: list[Value] = []
        total = 0
        for sku, name, cents in self._random.sample(PRODUCTS, self._random.randint(1, 4)):
            quantity = self._random.choice((1, 1, 1, 2, 3))
            items.append({"sku": sku, "name": name, "quantity": quantity, "cents": cents})
            total += quantity * cents
        return {
            "order_id": self._order_id(),
            "customer": customer,
            "items": items,
            "total": {"cents": total, "currency": "CNY" if customer["country"] == "CN" else "EUR"},
            "channel": self._random.choice(("web", "web", "app", "shop")),
        }

    def _of_payment(self) -> Value:
        return {
            "order_id": self._order_id(),
            "amount": {"cents": self._random.randrange(990, 180_000), "currency": self._random.choice(("EUR", "CNY"))},
            "method": self._random.choice(("alipay", "wechat", "card", "card", "invoice")),
            "status": self._random.choice(("new", "new", "retried")),
        }

    def _of_parcel(self) -> Value:
        return {
            "parcel_id": f"P{self._random.randrange(10**9, 10**10)}",
            "order_id": self._order_id(),
            "carrier": self._random.choice(CARRIERS),
            "place": self._random.choice(PLACES),
            "grams": self._random.randrange(120, 8_000),
        }

    def _of_product(self) -> Value:
        sku, name, cents = self._random.choice(PRODUCTS)
        return {"sku": sku, "name": name, "price": {"cents": cents - cents % 100 + 95, "was": cents}}

    def _of_stock(self) -> Value:
        sku, name, _ = self._random.choice(PRODUCTS)
        place = self._random.choice(("上海仓", "Leipzig", "Portland"))
        return {"sku": sku, "name": name, "warehouse": place, "on_hand": self._random.randrange(0, 400)}

    def _of_customer(self) -> Value:
        return {"customer": self._customer(), "consent": {"mail": True, "profiling": self._random.random() < 0.4}}

    def _of_notice(self) -> Value:
        customer = self._customer()
        is_chinese = customer["country"] == "CN"
        return {
            "to": customer["name"],
            "language": "zh" if is_chinese else "en",
            "subject": "您的订单已发货" if is_chinese else "Your order is on its way",
            "order_id": self._order_id(),
        }

    def _of_click(self) -> Value:
        sku, name, _ = self._random.choice(PRODUCTS)
        return {"session": f"{self._random.getrandbits(48):012x}", "sku": sku, "words": name.split()[0].lower()}

    def _of_reminder(self) -> Value:
        customer = self._customer()
        text = "别忘了您的优惠券" if customer["country"] == "CN" else "Your voucher is waiting"
        return {"customer": customer, "order_id": self._order_id(), "text": text}

    def _of_audit(self) -> Value:
        who = self._random.choice(("lin.wei", "maria.keller", "chen.jing", "tom.okafor"))
        return {"who": who, "what": self._random.choice(("switch.on", "switch.off", "export", "sign-in")), "ok": True}
