import { queryOptions } from "@tanstack/react-query";
import { read } from "@/api/requests";

const OFFERED_MAX = 20;

/** Names of subjects that contain a text, to choose from. */
export function subjectNamesOptions(text: string) {
  return queryOptions({
    queryKey: ["subjects", "names", text],
    queryFn: read("/api/v1/subjects/", { query: { search: text || undefined, limit: OFFERED_MAX } }),
    select: ({ results }: { results: readonly { name: string }[] }) => results.map(({ name }) => name),
    staleTime: 30_000,
  });
}
