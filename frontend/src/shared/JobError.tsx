import { Code, Stack, Text } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import { Sent } from "@/ui/Sent";

/** Errors that have a sentence of their own, by what their text contains. */
const KNOWN: readonly [RegExp, string][] = [[/Python worker failed to connect back/, "job_error.python_worker"]];

/**
 * The error of a background job: its first line, or a sentence for what is known; all of it, or `details`, when it is
 * unfolded.
 */
export function JobError({ text, details = "" }: { text: string; details?: string }) {
  const { t } = useTranslation();
  const [first = ""] = text.split("\n");
  const known = KNOWN.find(([pattern]) => pattern.test(text))?.[1];
  return (
    <Stack gap={2} miw={150}>
      <Text size="sm" c="red" className="break">
        {known ? t(known) : <Sent text={first} />}
      </Text>
      {(details || known !== undefined || first !== text) && (
        <details>
          <summary>{t("job_error.details")}</summary>
          <Code block tabIndex={0} className="job-error">
            {details || text}
          </Code>
        </details>
      )}
    </Stack>
  );
}
