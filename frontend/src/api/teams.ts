import { queryOptions } from "@tanstack/react-query";
import { read } from "@/api/requests";

/** As many as a picker offers; who has more types the name. */
const OFFERED_MAX = 500;

/** Names of teams, for pickers. */
export function teamNamesOptions() {
  return queryOptions({
    queryKey: ["teams", "names"],
    queryFn: read("/api/v1/teams/", { query: { limit: OFFERED_MAX, ordering: "name" } }),
    select: ({ results }: { results: readonly { name: string }[] }) => results.map(({ name }) => name),
    staleTime: 60_000,
  });
}
