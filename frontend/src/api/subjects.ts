import { useDebouncedValue } from "@mantine/hooks";
import { keepPreviousData, useQuery } from "@tanstack/react-query";
import { read } from "@/api/requests";

const OFFERED_MAX = 20;
const TYPING_MS = 250;

/**
 * Names of subjects that contain what is typed, to choose from; `debounced` is what the API was asked for last, when
 * the typing paused.
 */
export function useSubjectNames(typed: string) {
  const [debounced] = useDebouncedValue(typed, TYPING_MS);
  const { data: names = [] } = useQuery({
    queryKey: ["subjects", "names", debounced],
    queryFn: read("/api/v1/subjects/", { query: { search: debounced || undefined, limit: OFFERED_MAX } }),
    select: ({ results }: { results: readonly { name: string }[] }) => results.map(({ name }) => name),
    staleTime: 30_000,
    placeholderData: keepPreviousData,
  });
  return { names, debounced };
}
