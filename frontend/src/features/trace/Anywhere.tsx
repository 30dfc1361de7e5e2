import { Alert, Stack, Text } from "@mantine/core";
import { useEffect, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Problem } from "@/api/problem";
import { findAnywhere, type FoundAnywhere, type FoundMessage } from "@/features/trace/queries";
import { FoundTable } from "@/features/trace/FoundTable";
import { dateTime } from "@/format/times";
import { InstantInput } from "@/ui/dates/InstantInput";
import { StepsBar } from "@/ui/dialog/StepsBar";
import { useSteps } from "@/ui/dialog/useSteps";
import { Unreachable } from "@/ui/measure/Unreachable";
import { Part } from "@/ui/page/Part";
import { ProblemAlert } from "@/ui/page/ProblemAlert";
import { useZone } from "@/ui/preferences";

/** The API's code for an ID that does not contain a time. */
const UNTIMED = "message.id_untimed";

interface Props {
  messageId: string;
  /** When the message was stored, for an ID that does not say it; "" if that is not known. */
  around: string;
  onAround: (at: string) => void;
}

type Sums = Pick<FoundAnywhere, "progress" | "unreachable" | "searched">;

/** Messages with an ID in all subjects: the nodes scan their logs around its time, and stop where one was found. */
export function Anywhere({ messageId, around, onAround }: Props) {
  const { t } = useTranslation("trace");
  const [sums, setSums] = useState<Sums>({ progress: 0, unreachable: {}, searched: [] });
  const steps = useSteps<FoundMessage>(
    async (cursor, signal) => {
      const page = await findAnywhere(messageId, around, cursor, signal);
      setSums(page);
      return { found: page.results, next: page.next, done: 0 };
    },
    { foundMax: 1 },
  );
  const { start, state, found } = steps;
  useEffect(start, [start]);
  const isUntimed = state === "failed" && (steps.error as Problem).code === UNTIMED;
  return (
    <Part title={t("find.found")}>
      <Stack gap="sm" data-search={state}>
        {state !== "finished" && !isUntimed && (
          <StepsBar steps={steps} progress={sums.progress} label={t("find.progress")} more={t("find.more")} />
        )}
        <Unreachable of={sums.unreachable} />
        {found.length > 0 && <FoundTable messages={found} hasSubject />}
        {state === "finished" && found.length === 0 && (
          <Text role="status">
            {t("find.nowhere", { id: messageId })} <Searched windows={sums.searched} />
          </Text>
        )}
        {state === "failed" && !isUntimed && <ProblemAlert error={steps.error} onRetry={steps.resume} />}
        {isUntimed && (
          <Alert color="gray" title={t("find.untimed")}>
            {t("find.untimed_why")}
          </Alert>
        )}
        {(isUntimed || (state === "finished" && found.length === 0)) && (
          <InstantInput
            direction="past"
            label={t("find.around")}
            value={around || null}
            onChange={(at) => onAround(at ?? "")}
          />
        )}
      </Stack>
    </Part>
  );
}

/** From when to when was searched: what is not there may have been stored later. */
function Searched({ windows }: { windows: FoundAnywhere["searched"] }) {
  const { t } = useTranslation("trace");
  const zone = useZone();
  const [first] = windows;
  if (!first) return null;
  const near = windows.filter(
    ({ from_time }) => Math.abs(Date.parse(from_time) - Date.parse(first.from_time)) < 3_600_000,
  );
  const from = near.map((one) => one.from_time).sort()[0] ?? first.from_time;
  const to =
    near
      .map((one) => one.to_time)
      .sort()
      .at(-1) ?? first.to_time;
  return t("find.searched", { from: dateTime(from, zone), to: dateTime(to, zone) });
}
