import { api, must, type Schema } from "@/api/client";
import { contentType } from "@/features/provisioning/document";
import type { Attempt } from "@/api/requests";

export type Preview = Schema<"PreviewShape">;
export type PreviewStep = Schema<"StepShape">;

/** Apply a document as it was written, or in a dry run say what that would do. */
export function applyDocument(text: string, { dryRun, reason }: Attempt): Promise<Preview> {
  return must(
    api.PUT("/api/v1/apply/", {
      params: { query: { dry_run: dryRun, reason: reason || undefined } },
      // The text itself is sent: comments, order and mistakes are the API's to read, with their lines.
      body: text as unknown as Schema<"DocumentRequest">,
      bodySerializer: (body) => body as unknown as string,
      headers: { "Content-Type": contentType(text) },
    }),
  );
}
