"""What the collector reads of the database."""

from datetime import timedelta

import pytest
from asgiref.sync import async_to_sync
from django.utils import timezone

from console.live.metadata import METASERVER_FORGOTTEN_HOURS, MetadataReader
from console.tasks.heartbeats import METASERVER_FRESH_SECONDS
from metaserver.services import broker_groups
from qmq.clock import SystemClock


@pytest.mark.django_db(transaction=True)  # the reader asks in a thread of its own, with a connection of its own
def test_metaservers_are_heard_silent_or_forgotten() -> None:
    now = timezone.now()
    ages = {
        "10.0.0.1:1": timedelta(),
        "10.0.0.2:1": timedelta(seconds=METASERVER_FRESH_SECONDS + 1),
        "10.0.0.3:1": timedelta(hours=METASERVER_FORGOTTEN_HOURS, seconds=1),
    }
    for address, age in ages.items():
        broker_groups.save_beat(address, 5.0, now - age)
    reader = MetadataReader(SystemClock())
    async_to_sync(reader.read)()
    heard = {address: entry["is_heard"] for address, entry in reader.now.metaservers.items()}
    assert heard == {"10.0.0.1:1": True, "10.0.0.2:1": False}
    assert reader.now.metaservers["10.0.0.1:1"]["seen_at"].endswith("Z")
