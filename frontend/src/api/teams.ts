import { queryOptions } from "@tanstack/react-query";
import { api, must } from "@/api/client";

/** As many as a picker offers; who has more types the name. */
const OFFERED_MAX = 500;

/** Names of teams, for pickers. */
export function teamNamesOptions() {
  return queryOptions({
    queryKey: ["teams", "names"],
    queryFn: async ({ signal }) => {
      const query = { limit: OFFERED_MAX, ordering: "name" };
      const { results } = await must(api.GET("/api/v1/teams/", { params: { query }, signal }));
      return results.map(({ name }) => name);
    },
    staleTime: 60_000,
  });
}
