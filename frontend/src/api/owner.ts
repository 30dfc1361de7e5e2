import { queryOptions, useQuery } from "@tanstack/react-query";
import type { Schema } from "@/api/client";
import { useMay, type Right } from "@/api/me";
import { read } from "@/api/requests";
import { splitSubject } from "@/format/subjects";

/**
 * The subject that a name stands for, as the API knows it: who owns it, where it lies. Retry and dead-letter names mean
 * their real one.
 */
export function placeOptions(name: string) {
  const { subject } = splitSubject(name);
  return queryOptions({
    queryKey: ["subjects", "place", subject],
    queryFn: read("/api/v1/subjects/{subject}/", { path: { subject } }),
    select: ({ owner, broker_groups, is_archived }: Schema<"SubjectRow">) => ({
      owner: owner ?? null,
      brokerGroups: broker_groups,
      isArchived: is_archived,
    }),
    staleTime: 30_000,
  });
}

/**
 * Whether the viewer has a right on a subject; false until its owner is known. The API decides; this only hides
 * buttons.
 */
export function useMayOn(name: string): (right: Right) => boolean {
  const may = useMay();
  const { data } = useQuery(placeOptions(name));
  return (right) => data !== undefined && may(right, data.owner);
}
