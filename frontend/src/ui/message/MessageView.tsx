import "@/ui/message/message.css";
import { Alert, Badge, Group, Stack, Text, Title } from "@mantine/core";
import { useMemo, type ReactNode } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import type { Schema } from "@/api/client";
import { bytes, sequence } from "@/format/numbers";
import { CopyIcon } from "@/ui/menu/CopyIcon";
import { Instant } from "@/ui/measure/Instant";
import { BodyView } from "@/ui/message/BodyView";
import { cell, ENCODING, propertiesOf } from "@/ui/message/decode";
import { MaskMark, MaskNotes, type MaskedValue } from "@/ui/message/MaskNotes";
import { useLanguage } from "@/ui/preferences";
import { Table } from "@/ui/table/Table";
import { useSentence } from "@/i18n/useSentence";

export type Message = Schema<"MessageRow">;

/** A stored message whole: where and when it lies, its body decoded, its properties. What can't be shown says why. */
export function MessageView({ message, facts }: { message: Message; facts?: readonly [string, ReactNode][] }) {
  const { t } = useTranslation("message");
  const language = useLanguage();
  return (
    <Stack gap="md" data-message={`${message.broker_group}:${message.sequence}`}>
      <Facts
        rows={[
          [
            t("field.message_id"),
            message.message_id === null ? (
              "—"
            ) : (
              <Group gap={2} wrap="nowrap" component="span">
                <span className="break">{message.message_id}</span>
                <CopyIcon value={message.message_id} what={t("field.message_id")} />
              </Group>
            ),
          ],
          [t("field.place"), `${message.broker_group} · ${sequence(message.sequence)}`],
          [t("field.stored_at"), <Instant key="stored" at={message.stored_at} withMillis />],
          [t("field.created_at"), <Instant key="created" at={message.created_at} withMillis />],
          [t("field.size"), bytes(message.size, language)],
          [t("field.tags"), message.tags.length > 0 ? <Tags key="tags" tags={message.tags} /> : "—"],
          ...(facts ?? []),
        ]}
      />
      {message.withheld !== null && (
        <Alert color="red" title={t("withheld")}>
          {message.withheld}
        </Alert>
      )}
      <Content
        properties={message.properties}
        isMasked={message.masked}
        maskedValues={message.masked_values}
        decoding={message.decoding}
      />
    </Stack>
  );
}

/** What a message says: its body decoded, and its properties. */
export function Content({
  properties: raw,
  isMasked,
  maskedValues,
  decoding,
}: {
  properties: Readonly<Record<string, string>> | null | undefined;
  isMasked: boolean;
  maskedValues: readonly MaskedValue[];
  decoding: Message["decoding"];
}) {
  const { t } = useTranslation("message");
  const sentence = useSentence();
  const properties = useMemo(() => propertiesOf(raw ?? {}), [raw]);
  return (
    <>
      {isMasked && (
        <Alert color="gray" title={t("masked.title")}>
          {t("masked.why")}
        </Alert>
      )}
      <MaskNotes values={maskedValues} />
      {properties.length > 0 && (
        <>
          <Stack gap={6}>
            <Title order={3} size="h5">
              {t("body.title")}
            </Title>
            {decoding && (
              <Text size="sm" c={decoding.problem === null ? "dimmed" : "orange"} data-decoding={decoding.format}>
                {decoding.problem === null
                  ? t("decoded", { format: decoding.format })
                  : t("undecoded", { format: decoding.format, why: sentence(decoding.problem) })}
              </Text>
            )}
            <BodyView properties={properties} isBase64={raw?.[ENCODING] === "base64"} />
          </Stack>
          <Stack gap={6}>
            <Title order={3} size="h5">
              {t("properties")}
            </Title>
            <Table withTableBorder data-properties="">
              <Table.Tbody>
                {properties.map(({ name, value, isSystem }) => (
                  <Table.Tr key={name}>
                    <Table.Th scope="row" c={isSystem ? "dimmed" : undefined} className="property-name">
                      {name}
                      <MaskMark values={maskedValues} name={name} />
                    </Table.Th>
                    <Table.Td className="break" c={isSystem ? "dimmed" : undefined}>
                      <Text size="sm" lineClamp={2} inherit>
                        {cell(value)}
                      </Text>
                    </Table.Td>
                    <Table.Td w={40}>
                      <CopyIcon value={value} what={name} />
                    </Table.Td>
                  </Table.Tr>
                ))}
              </Table.Tbody>
            </Table>
          </Stack>
        </>
      )}
    </>
  );
}

/** `isLine`: on one line, for lists. */
export function Tags({ tags, isLine = false }: { tags: readonly string[]; isLine?: boolean }) {
  if (tags.length === 0) return null;
  return (
    <Group gap={4} component="span" wrap={isLine ? "nowrap" : "wrap"}>
      {tags.map((tag) => (
        <Badge key={tag} variant="light" tt="none">
          {tag}
        </Badge>
      ))}
    </Group>
  );
}

/** What is known of a thing, name beside value. */
export function Facts({ rows }: { rows: readonly (readonly [string, ReactNode])[] }) {
  return (
    <dl className="facts">
      {rows.map(([name, value]) => (
        <div key={name}>
          <dt>{name}</dt>
          <dd>{value}</dd>
        </div>
      ))}
    </dl>
  );
}
