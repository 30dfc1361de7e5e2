import { List, Stack, Text } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import type { ResetDone } from "@/features/groups/queries";
import { totals } from "@/features/groups/reset";
import * as numbers from "@/format/numbers";
import { Measured } from "@/ui/measure/Measured";
import { useLanguage } from "@/ui/preferences";
import { PlainTable } from "@/ui/table/PlainTable";
import { defineColumns } from "@/ui/table/define";

/** What a reset skips and repeats: in words, then on each broker group. */
export function ResetPreview({ preview }: { preview: ResetDone }) {
  const { t } = useTranslation("groups");
  const language = useLanguage();
  const of = totals(preview);
  const sentence = (what: "skipped" | "repeated" | "in_flight") => {
    const value = of[what];
    if (value === null) return t(`preview.${what}_unknown`);
    return t(`preview.${what}`, { count: value, number: numbers.count(value, language) });
  };
  const at = (position: string | null) => (position === null ? "—" : numbers.sequence(position));
  const differing = (["skipped", "repeated", "in_flight"] as const).filter((what) => of[what] !== 0);
  return (
    <Stack gap="xs">
      {preview.is_change ? (
        <>
          {of.skipped === 0 && of.repeated === 0 && <Text size="sm">{t("preview.neither")}</Text>}
          <List size="sm">
            {differing.map((what) => (
              <List.Item key={what} data-says={what}>
                {sentence(what)}
              </List.Item>
            ))}
          </List>
        </>
      ) : (
        <Text size="sm">{t("preview.nothing")}</Text>
      )}
      <PlainTable
        label={t("places.title")}
        withTableBorder
        minWidth={240}
        columns={defineColumns<ResetDone["broker_groups"][number]>(
          (id) => t(`preview.${id}`),
          (column) => [
            column("broker_group", { header: t("places.broker_group"), isFixed: true }, (one) => one.broker_group),
            column("from", { align: "right" }, (one) => at(one.position)),
            column("to", { align: "right" }, (one) => at(one.new_position)),
            column("skips", { align: "right" }, (one) => <Measured value={one.skipped} />),
            column("repeats", { align: "right" }, (one) => <Measured value={one.repeated} />),
          ],
        )}
        rows={preview.broker_groups}
        rowKey={(one) => one.broker_group}
      />
    </Stack>
  );
}
