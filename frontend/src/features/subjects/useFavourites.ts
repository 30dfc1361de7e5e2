import { useMutation, useQuery, useQueryClient } from "@tanstack/react-query";
import { useMemo } from "react";
import { meOptions, type Me } from "@/api/me";
import { change, NOW } from "@/api/requests";
import { subjectsKey } from "@/features/subjects/queries";

export interface Favourites {
  chosen: ReadonlySet<string>;
  /** Makes a subject a favourite, or no longer. */
  toggle: (subject: string) => void;
  /** The subject that is being changed. */
  pending: string | undefined;
}

function favouritesOf(me: Me): readonly string[] {
  return me.preferences.favourite_subjects ?? [];
}

/** The user's favourite subjects, once for a list: a query and a mutation of each row are felt when it scrolls. */
export function useFavourites(): Favourites {
  const client = useQueryClient();
  const { data: names } = useQuery({ ...meOptions(), select: favouritesOf });
  const { mutate, isPending, variables } = useMutation({
    mutationFn: async (subject: string) => {
      // Unknown ones are no empty list: they would be replaced by this one.
      const before = favouritesOf(await client.query({ ...meOptions(), staleTime: "static" }));
      const others = before.filter((name) => name !== subject);
      const chosen = others.length < before.length ? others : [...before, subject];
      return change("patch", "/api/v1/me/", NOW, { body: { preferences: { favourite_subjects: chosen } } });
    },
    // One after the other: each is worked out of what the one before it left.
    scope: { id: "favourites" },
    onSuccess: async () => {
      await client.invalidateQueries(meOptions());
      await client.invalidateQueries({ queryKey: subjectsKey });
    },
  });
  const pending = isPending ? variables : undefined;
  return useMemo(() => ({ chosen: new Set(names), toggle: mutate, pending }), [names, mutate, pending]);
}
