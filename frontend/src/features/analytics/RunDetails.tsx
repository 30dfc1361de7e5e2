import { Code, Loader, Stack, Table } from "@mantine/core";
import { useQuery } from "@tanstack/react-query";
import type { ReactNode } from "react";
import { useTranslation } from "react-i18next";
import { type Run, runOptions } from "@/features/analytics/queries";
import { RunState, secondsOfRun } from "@/features/analytics/RunState";
import { Instant } from "@/ui/Instant";
import { Measured } from "@/ui/Measured";
import { Dialog } from "@/ui/Dialog";
import { QueryProblem } from "@/ui/loaded";

/** One run, with what went in. */
export function RunDetails({ id, onClose }: { id: string | undefined; onClose: () => void }) {
  const { t } = useTranslation("analytics");
  const found = useQuery({ ...runOptions(id ?? ""), enabled: id !== undefined });
  return (
    <Dialog opened={id !== undefined} onClose={onClose} size="lg" title={t("run.title", { id })}>
      <QueryProblem of={found} />
      {found.isLoading && <Loader aria-label={t("common:state.loading")} />}
      {found.data && <Facts run={found.data} />}
    </Dialog>
  );
}

function Facts({ run }: { run: Run }) {
  const { t } = useTranslation("analytics");
  const count = (text: string | null) => <Measured value={text === null ? null : Number(text)} />;
  const facts: [string, ReactNode][] = [
    ["job", run.job],
    ["state", <RunState key="state" state={run.state} />],
    ["from_at", <Instant key="from" at={run.from_at} />],
    ["to_at", <Instant key="to" at={run.to_at} />],
    ["watermark_at", <Instant key="watermark" at={run.watermark_at} />],
    ["started_at", <Instant key="started" at={run.started_at} />],
    ["finished_at", <Instant key="finished" at={run.finished_at} />],
    ["duration", <Measured key="duration" value={secondsOfRun(run)} as="duration" reason={t("run.not_finished")} />],
    ["rows_read", count(run.rows_read)],
    ["rows_written", count(run.rows_written)],
    ["missing", run.missing.join(", ") || "—"],
    ["late_rows", count(run.late_rows)],
    ["holes", count(run.holes)],
    ["tables", run.tables.join(", ") || "—"],
  ];
  return (
    <Stack>
      {run.error && (
        <Code block c="red" tabIndex={0}>
          {run.error}
        </Code>
      )}
      <Table variant="vertical">
        <Table.Tbody>
          {facts.map(([name, value]) => (
            <Table.Tr key={name}>
              <Table.Th scope="row" w={180}>
                {t(`run.${name}`)}
              </Table.Th>
              <Table.Td className="break">{value}</Table.Td>
            </Table.Tr>
          ))}
          <Table.Tr>
            <Table.Th scope="row">{t("run.inputs")}</Table.Th>
            <Table.Td>
              <Code block tabIndex={0}>
                {JSON.stringify(run.inputs, null, 2)}
              </Code>
            </Table.Td>
          </Table.Tr>
        </Table.Tbody>
      </Table>
    </Stack>
  );
}
