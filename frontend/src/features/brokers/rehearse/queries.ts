import { queryOptions } from "@tanstack/react-query";
import type { Change, Schema } from "@/api/client";
import { asProblem, type Problem } from "@/api/problem";
import { change, etagOf, read } from "@/api/requests";
import { brokersKey } from "@/features/brokers/queries";
import { eachOf } from "@/ui/dialog/useSteps";

export type Planned = Schema<"PlannedSwitchOver">;
export type Rehearsed = Schema<"RehearsedSwitchOver">;

/** What is rehearsed, as in the address (`node:g1-a`, `rack:r1`). `undo`: to switch back; `choose`: nothing yet. */
export interface Rehearsal {
  of: "node" | "rack" | "undo" | "choose";
  name: string;
}

const REFRESH_MS = 2_000;

/** The place in the address; what is none is `choose`. */
export function rehearsalAt(text: string): Rehearsal {
  const [of, ...name] = text.split(":");
  if ((of === "node" || of === "rack") && name.length > 0) return { of, name: name.join(":") };
  return { of: of === "undo" ? "undo" : "choose", name: "" };
}

/** The plan of a rehearsal, what can be switched back, and the racks. */
export function rehearsalOptions({ of, name }: Rehearsal, refetchMs = REFRESH_MS) {
  return queryOptions({
    queryKey: [...brokersKey, "rehearsals", of, name],
    queryFn: read("/api/v1/rehearsals/", { query: of === "node" || of === "rack" ? { [of]: name } : {} }),
    refetchInterval: refetchMs,
  });
}

/** What became of one group's switch-over. */
export interface Outcome {
  group: string;
  change: Change | null;
  problem: Problem | null;
}

/** Switch over groups one by one; the problem of one is noted with it, and the others follow. */
export function switchOverStep(groups: readonly Planned[], rehearsal: string, reason: string) {
  return eachOf(groups, async (group): Promise<Outcome> => {
    const { broker_group: name, to } = group;
    try {
      const done = await change(
        "post",
        "/api/v1/broker-groups/{name}/switch-over/",
        { dryRun: false, reason },
        { path: { name }, etag: etagOf(group), body: { to, rehearsal } },
      );
      return { group: name, change: done, problem: null };
    } catch (error) {
      return { group: name, change: null, problem: asProblem(error) };
    }
  });
}
