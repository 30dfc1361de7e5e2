import { api, must, type Schema } from "@/api/client";
import type { Load } from "@/ui/table/types";

export type Subject = Schema<"SubjectRow">;

/** Keys begin with `subjects`: a change of one refreshes all lists. */
export const subjectsKey = ["subjects"] as const;

export const loadSubjects: Load<Subject> = (query, signal) =>
  must(api.GET("/api/v1/subjects/", { params: { query }, signal }));
