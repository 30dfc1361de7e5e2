"""A first run: producers and consumers under kills."""
import asyncio, collections, logging, sys, time
from qmq import Consumer, Producer, Timeouts
from qmq.client.message_ids import MessageIds
from qmq.errors import QmqError
from tests.sim.cluster import Cluster
from tests.sim.loop import Process, SimulatedClock, SimulatedLoop

TIMEOUTS = Timeouts(connect=1.0, send=2.0, ack=2.0, delivery=60.0)

async def run(loop, kills=6):
    cluster = Cluster(loop)
    logging.getLogger().handlers[:] = [cluster.log]; logging.getLogger().setLevel(logging.INFO)
    await cluster.start()
    rng = loop.rng("workload")
    sent, unknown, got = set(), set(), collections.Counter()
    stop = asyncio.Event()
    async def produce(k):
        clock = SimulatedClock(loop)
        async with Producer(cluster.meta_url, app="t", timeouts=TIMEOUTS, clock=clock, make_id=MessageIds(clock, lambda: f"p{k}")) as p:
            n = 0
            while not stop.is_set():
                v = f"{k}-{n}"; n += 1
                try:
                    await p.send(f"s{k%2}", {"v": v}); sent.add(v)
                except QmqError: unknown.add(v)
                await asyncio.sleep(rng.random() * 0.1)
    async def consume(k):
        clock = SimulatedClock(loop)
        async with Consumer(cluster.meta_url, f"s{k%2}", "g", consumer_id=f"c{k}", start="earliest", timeouts=TIMEOUTS, clock=clock) as c:
            while True:
                for d in await c.pull(20, timeout=1.0):
                    got[d.properties["v"]] += 1
                    await d.ack()
    cps = [Process(loop, f"client{k}") for k in range(8)]
    cs = [cps[k].start(consume(k)) for k in range(4)]
    await asyncio.sleep(2)
    ps = [cps[4 + k].start(produce(k)) for k in range(4)]
    for _ in range(kills):
        await asyncio.sleep(rng.uniform(1, 10))
        host = cluster.brokers[rng.choice(["g1", "g2"])]
        if rng.random() < 0.5: host.kill()
        else: host.cut_power()
        await asyncio.sleep(rng.uniform(0.1, 3))
        cluster.network.power_on(host.name)
        host.start()
    await asyncio.sleep(3); stop.set(); await asyncio.gather(*ps)
    end = loop.now + 120
    while not sent <= set(got) and loop.now < end: await asyncio.sleep(0.5)
    for t in cs: t.cancel()
    await asyncio.gather(*cs, return_exceptions=True)
    await cluster.stop()
    return dict(sent=len(sent), unknown=len(unknown), got=sum(got.values()), again=sum(n - 1 for n in got.values()), lost=len(sent - set(got)), phantom=len(set(got) - sent - unknown)), cluster

def one(seed, kills=6, trace=None):
    loop = SimulatedLoop(seed)
    if trace: loop.observe = lambda line: trace.write(line + "\n")
    asyncio.set_event_loop(loop)
    began, cpu = time.perf_counter(), time.process_time()
    out, cluster = loop.run_until_complete(run(loop, kills))
    print(seed, out, f"virtual {loop.now-1000:.1f} cpu {time.process_time()-cpu:.2f} events {loop.events} digest {loop.digest}", [repr(e.get("exception") or e["message"])[:200] for e in loop.errors][:3])
    loop.close()
    return cluster
if __name__ == "__main__":
    for s in sys.argv[1:]: one(int(s))
