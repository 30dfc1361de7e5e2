import { List, Stack, Table, Text } from "@mantine/core";
import { useTranslation } from "react-i18next";
import type { ResetDone } from "@/features/groups/queries";
import { totals } from "@/features/groups/reset";
import * as numbers from "@/format/numbers";
import { Measured } from "@/ui/Measured";
import { useLanguage } from "@/ui/preferences";

/** What a reset skips and repeats: in words, then on each broker group. */
export function ResetPlan({ plan }: { plan: ResetDone }) {
  const { t } = useTranslation("groups");
  const language = useLanguage();
  const of = totals(plan);
  const sentence = (what: "skipped" | "repeated" | "in_flight") => {
    const value = of[what];
    if (value === null) return t(`plan.${what}_unknown`);
    return t(`plan.${what}`, { count: value, number: numbers.count(value, language) });
  };
  const differing = (["skipped", "repeated", "in_flight"] as const).filter((what) => of[what] !== 0);
  return (
    <Stack gap="xs">
      {plan.is_change ? (
        <>
          {of.skipped === 0 && of.repeated === 0 && <Text size="sm">{t("plan.neither")}</Text>}
          <List size="sm">
            {differing.map((what) => (
              <List.Item key={what} data-says={what}>
                {sentence(what)}
              </List.Item>
            ))}
          </List>
        </>
      ) : (
        <Text size="sm">{t("plan.nothing")}</Text>
      )}
      <Table.ScrollContainer minWidth={240}>
        <Table withTableBorder>
          <Table.Thead>
            <Table.Tr>
              <Table.Th>{t("places.broker_group")}</Table.Th>
              <Table.Th ta="right">{t("plan.from")}</Table.Th>
              <Table.Th ta="right">{t("plan.to")}</Table.Th>
              <Table.Th ta="right">{t("plan.skips")}</Table.Th>
              <Table.Th ta="right">{t("plan.repeats")}</Table.Th>
            </Table.Tr>
          </Table.Thead>
          <Table.Tbody>
            {plan.broker_groups.map((one) => (
              <Table.Tr key={one.broker_group}>
                <Table.Th scope="row" fw={400}>
                  {one.broker_group}
                </Table.Th>
                <Table.Td ta="right">{one.position === null ? "—" : numbers.sequence(one.position)}</Table.Td>
                <Table.Td ta="right">{one.new_position === null ? "—" : numbers.sequence(one.new_position)}</Table.Td>
                <Table.Td ta="right">
                  <Measured value={one.skipped} />
                </Table.Td>
                <Table.Td ta="right">
                  <Measured value={one.repeated} />
                </Table.Td>
              </Table.Tr>
            ))}
          </Table.Tbody>
        </Table>
      </Table.ScrollContainer>
    </Stack>
  );
}
