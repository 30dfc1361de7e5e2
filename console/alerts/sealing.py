"""Secrets of channels in the database."""

from console.sealing import Seal

CHANNELS = Seal(b"qmq alert channels", what="the channel's secrets", code="alert_channel.unreadable")
