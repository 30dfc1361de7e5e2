import { Code, Group, NativeSelect, SegmentedControl, Stack, Text } from "@mantine/core";
import { useMemo, useState } from "react";
import { useTranslation } from "@/i18n/useTranslation";
import { bytes } from "@/format/numbers";
import { CopyIcon } from "@/ui/menu/CopyIcon";
import { BODY, cut, hexDump, isJson, prettyJson, type Property, type Shown } from "@/ui/message/decode";
import { whenDrawn } from "@/ui/dialog/whenOpened";
import { useLanguage } from "@/ui/preferences";

const JsonTree = whenDrawn(async () => (await import("@/ui/message/JsonTree")).JsonTree);

/** More would only slow the page down; copying takes the whole text. */
const TEXT_CHARS_MAX = 200_000;
const HEX_BYTES_MAX = 16_384;

type Format = "json" | "text" | "hex";

/** A value as text. Each stops at its limit, so that no message costs more. JSON is shown as a tree, copied as text. */
const LAYOUTS: Readonly<Record<Format, (value: string, isBase64: boolean) => Shown>> = {
  json: (value) => prettyJson(value, TEXT_CHARS_MAX),
  text: (value) => cut(value, TEXT_CHARS_MAX),
  hex: (value, isBase64) => hexDump(value, HEX_BYTES_MAX, isBase64),
};

/** One property's value: as a tree of JSON, as the text it is, or as bytes. `isBase64`: the body consists of bytes. */
export function BodyView({ properties, isBase64 }: { properties: readonly Property[]; isBase64: boolean }) {
  const { t } = useTranslation("message");
  const language = useLanguage();
  const [wanted, setWanted] = useState<string | null>(null);
  const [format, setFormat] = useState<Format | null>(null);
  const shown = properties.find(({ name }) => name === wanted) ?? properties[0];
  const value = shown?.value ?? "";
  const isBytes = isBase64 && shown?.name === BODY;
  const hasJson = useMemo(() => isJson(value), [value]);
  const as: Format = format === "json" && !hasJson ? "text" : (format ?? (hasJson ? "json" : isBytes ? "hex" : "text"));
  const size = useMemo(() => new TextEncoder().encode(value).length, [value]);
  const { text, isCut } = useMemo(() => LAYOUTS[as](value, isBytes), [value, as, isBytes]);
  if (!shown) return null;
  return (
    <Stack gap={6}>
      <Group gap="xs">
        <NativeSelect
          size="xs"
          w={180}
          aria-label={t("body.property")}
          data={properties.map(({ name }) => name)}
          value={shown.name}
          onChange={(event) => setWanted(event.currentTarget.value)}
        />
        <SegmentedControl
          size="xs"
          aria-label={t("body.format")}
          value={as}
          onChange={(next) => setFormat(next)}
          data={[
            { value: "json", label: t("body.json"), disabled: !hasJson },
            { value: "text", label: t("body.text") },
            { value: "hex", label: t("body.hex") },
          ]}
        />
        <Text size="xs" c="dimmed">
          {bytes(size, language)}
        </Text>
        <CopyIcon value={as === "json" && !isCut ? text : value} what={shown.name} />
      </Group>
      {/* A scrolled region has to be reachable by keyboard. */}
      <Code block component="div" tabIndex={0} className="message-body" data-body={as}>
        {as === "json" ? <JsonTree key={value} text={value} name={shown.name === BODY ? "body" : ""} /> : text}
      </Code>
      {isCut && as !== "json" && (
        <Text size="xs" c="dimmed">
          {t("body.cut", { shown: bytes(as === "hex" ? HEX_BYTES_MAX : TEXT_CHARS_MAX, language) })}
        </Text>
      )}
    </Stack>
  );
}
