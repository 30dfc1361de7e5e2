import { useState } from "react";
import { countsOf, ratesOf, SAMPLES_MAX, type Consumer, type Counts } from "@/features/groups/members";
import type { Detail } from "@/features/groups/queries";

type Rates = ReturnType<typeof ratesOf>;

/** Each consumer's messages a second, from what it was given and acked the last few times that the nodes were asked. */
export function useRates(detail: Detail, measuredAtMs: number): (consumer: Consumer) => Rates {
  const [samples, setSamples] = useState<readonly Counts[]>([]);
  if (samples.at(-1)?.atMs !== measuredAtMs) {
    setSamples([...samples, countsOf(detail.members, measuredAtMs)].slice(-SAMPLES_MAX));
  }
  return ({ parts }) => ratesOf(parts, samples[0], samples.at(-1));
}
