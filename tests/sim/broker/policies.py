"""Policies in force."""

from broker_node.broker import Broker
from qmq_node.policy import NodePolicy, encode_policy


async def enforce(broker: Broker, policy: NodePolicy) -> None:
    """As if the metaserver had sent it."""
    await broker.registration.policies.replace(encode_policy(policy))
