import { Accordion, Alert, Badge, Code, Group, List, Stack, Text, Title } from "@mantine/core";
import { useTranslation } from "@/i18n/useTranslation";
import { Sideways } from "@/ui/table/Sideways";
import { differences, grouped, type Action } from "@/features/provisioning/preview";
import type { Preview, PreviewStep } from "@/features/provisioning/queries";
import { Table } from "@/ui/table/Table";

const COLOURS: Readonly<Record<Action, string>> = { create: "teal", update: "blue", archive: "red", restore: "grape" };

/** In one line: how many of what. */
export function PreviewSummary({ preview }: { preview: Preview }) {
  const { t } = useTranslation("provisioning");
  const { changes, kept } = grouped(preview);
  return (
    <Group gap="xs">
      {[...changes].map(([action, steps]) => (
        <Badge key={action} variant="light" color={COLOURS[action]} data-count={action}>
          {t(`count.${action}`, { count: steps.length })}
        </Badge>
      ))}
      {kept.length > 0 && (
        <Badge variant="light" color="gray" data-count="keep">
          {t("count.keep", { count: kept.length })}
        </Badge>
      )}
    </Group>
  );
}

/** Every step of a preview with what it changes, what stays as it is, and what is there beside the document. */
export function PreviewView({ preview }: { preview: Preview }) {
  const { t } = useTranslation("provisioning");
  const { changes, kept } = grouped(preview);
  return (
    <Stack data-preview={preview.is_change ? "change" : "nothing"}>
      {!preview.is_change && (
        <Alert color="teal" title={t("nothing")}>
          {t("nothing_text")}
        </Alert>
      )}
      <PreviewSummary preview={preview} />
      {[...changes].map(([action, steps]) => (
        <section key={action}>
          <Title order={3} size="h5" mb="xs">
            {t(`heading.${action}`)}
          </Title>
          <Steps steps={steps} action={action} />
        </section>
      ))}
      {preview.drift.length > 0 && (
        <Alert color="yellow" title={t("drift", { count: preview.drift.length })} data-drift={preview.drift.length}>
          <Text size="sm">{t("drift_text")}</Text>
          <List size="sm" mt="xs">
            {preview.drift.map((name) => (
              <List.Item key={name} className="break">
                {name}
              </List.Item>
            ))}
          </List>
        </Alert>
      )}
      {kept.length > 0 && (
        <Accordion variant="contained">
          <Accordion.Item value="kept">
            <Accordion.Control>{t("count.keep", { count: kept.length })}</Accordion.Control>
            <Accordion.Panel>
              <List size="sm">
                {kept.map(({ kind, target }) => (
                  <List.Item key={`${kind} ${target}`} className="break">
                    {t(`kind.${kind}`)} <Code>{target}</Code>
                  </List.Item>
                ))}
              </List>
            </Accordion.Panel>
          </Accordion.Item>
        </Accordion>
      )}
    </Stack>
  );
}

function Steps({ steps, action }: { steps: readonly PreviewStep[]; action: Action }) {
  const { t } = useTranslation("provisioning");
  const isUpdate = action === "update";
  return (
    <Sideways label={t(`heading.${action}`)}>
      <Table miw={420} withTableBorder>
        <Table.Thead>
          <Table.Tr>
            <Table.Th w="38%">{t("column.target")}</Table.Th>
            <Table.Th>{t("column.field")}</Table.Th>
            {isUpdate && <Table.Th>{t("column.before")}</Table.Th>}
            <Table.Th>{isUpdate ? t("column.after") : t("column.value")}</Table.Th>
          </Table.Tr>
        </Table.Thead>
        <Table.Tbody>
          {steps.map((step) => (
            <Rows key={`${step.kind} ${step.target}`} step={step} isUpdate={isUpdate} />
          ))}
        </Table.Tbody>
      </Table>
    </Sideways>
  );
}

function Rows({ step, isUpdate }: { step: PreviewStep; isUpdate: boolean }) {
  const { t } = useTranslation("provisioning");
  const fields = differences(step);
  const rows = fields.length > 0 ? fields : [null];
  return rows.map((each, n) => (
    <Table.Tr key={each?.field ?? ""} data-step={n === 0 ? `${step.action} ${step.target}` : undefined}>
      {n === 0 && (
        <Table.Th scope="rowgroup" rowSpan={rows.length} className="break" style={{ verticalAlign: "top" }}>
          <Text size="xs" c="dimmed" fw={400}>
            {t(`kind.${step.kind}`)}
          </Text>
          {step.target}
        </Table.Th>
      )}
      <Table.Td>{each?.field ?? "—"}</Table.Td>
      {isUpdate && <Table.Td className="break">{each?.before ?? "—"}</Table.Td>}
      <Table.Td className="break">{each?.after ?? "—"}</Table.Td>
    </Table.Tr>
  ));
}
