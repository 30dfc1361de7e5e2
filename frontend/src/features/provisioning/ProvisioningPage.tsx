import { Button, Group, SimpleGrid, Stack, Text, Title } from "@mantine/core";
import { useMutation, useQueryClient } from "@tanstack/react-query";
import { useRef, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { asProblem } from "@/api/problem";
import { bytesOf, DOCUMENT_BYTES_MAX, lineOf, rangeOfLine } from "@/features/provisioning/document";
import { DocumentField } from "@/features/provisioning/DocumentField";
import { dangerousName } from "@/features/provisioning/preview";
import { PreviewSummary, PreviewView } from "@/features/provisioning/PreviewView";
import { applyDocument, type Preview } from "@/features/provisioning/queries";
import { PreviewDialog } from "@/ui/dialog/ChangeDialog";
import { PageHeader } from "@/ui/page/PageHeader";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { Snippet, Teach } from "@/shared/Teach";

const COMMANDS = `qmq apply -f FILE --dry-run
qmq apply -f FILE`;

/** A document of teams, subjects and consumer groups: see what it changes, then apply it. */
export default function ProvisioningPage() {
  const { t } = useTranslation("provisioning");
  const client = useQueryClient();
  const [text, setText] = useState("");
  const [isApplying, setApplying] = useState(false);
  const field = useRef<HTMLTextAreaElement>(null);
  const preview = useMutation({
    mutationFn: async (document: string) => ({
      document,
      preview: await applyDocument(document, { dryRun: true, reason: "" }),
    }),
  });
  // A preview of another text is no preview.
  const current = preview.data?.document === text ? preview.data.preview : null;
  const isReady = text.trim() !== "" && bytesOf(text) <= DOCUMENT_BYTES_MAX;
  const edit = (next: string) => {
    setText(next);
    if (preview.isError) preview.reset();
  };
  return (
    <>
      <PageHeader title={t("title")} description={t("about")} />
      <SimpleGrid cols={{ base: 1, lg: 2 }} spacing="lg">
        <Stack component="section" aria-label={t("document")}>
          <DocumentField text={text} onChange={edit} field={field} />
          <Group>
            <Button
              variant={current?.is_change ? "default" : "filled"}
              disabled={!isReady}
              loading={preview.isPending}
              onClick={() => preview.mutate(text)}
              data-action="preview"
            >
              {t("preview")}
            </Button>
            <Button disabled={!current?.is_change} onClick={() => setApplying(true)} data-action="open-apply">
              {t("apply")}
            </Button>
          </Group>
          <div>
            <Text size="sm" c="dimmed" mb={4}>
              {t("command")}
            </Text>
            <Snippet code={COMMANDS} />
          </div>
        </Stack>
        <Stack component="section" aria-label={t("preview_title")} aria-live="polite">
          <Title order={2} size="h4">
            {t("preview_title")}
          </Title>
          {preview.isError && <PreviewProblem error={preview.error} text={text} field={field} />}
          {current && <PreviewView preview={current} />}
          {!current && !preview.isError && (
            <Teach title={t("empty.title")}>{preview.data ? t("empty.changed") : t("empty.text")}</Teach>
          )}
        </Stack>
      </SimpleGrid>
      {isApplying && (
        <PreviewDialog<Preview>
          onClose={() => setApplying(false)}
          title={t("apply_title")}
          actionLabel={t("apply_do")}
          doneMessage={t("applied")}
          confirmName={current ? dangerousName(current) : undefined}
          run={(attempt) => applyDocument(text, attempt)}
          isWorthIt={({ is_change }) => is_change}
          show={(found) => (
            <Stack gap="xs">
              <Text size="sm">{found.is_change ? t("apply_text") : t("nothing_text")}</Text>
              <PreviewSummary preview={found} />
            </Stack>
          )}
          onDone={() => {
            // Subjects, teams and groups are everywhere.
            void client.invalidateQueries();
            preview.mutate(text);
          }}
        />
      )}
    </>
  );
}

/** What is wrong with the document, and the way to the line. */
function PreviewProblem({
  error,
  text,
  field,
}: {
  error: unknown;
  text: string;
  field: React.RefObject<HTMLTextAreaElement | null>;
}) {
  const { t } = useTranslation("provisioning");
  const line = lineOf(asProblem(error).detail, text);
  return (
    <Stack gap="xs">
      <ProblemAlert error={error} />
      {line !== null && (
        <Group>
          <Button
            variant="default"
            size="compact-md"
            onClick={() => {
              field.current?.focus();
              field.current?.setSelectionRange(...rangeOfLine(text, line));
            }}
          >
            {t("go_to_line", { line })}
          </Button>
        </Group>
      )}
    </Stack>
  );
}
