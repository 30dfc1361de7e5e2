import { Code, Group, SegmentedControl, Select, Stack, Text } from "@mantine/core";
import { useMemo, useState } from "react";
import { useTranslation } from "react-i18next";
import { bytes } from "@/format/numbers";
import { CopyIcon } from "@/ui/CopyIcon";
import { hexDump, isJson, prettyJson, type Property } from "@/ui/message/decode";
import { useLanguage } from "@/ui/preferences";

/** More would only slow the page down; copying takes the whole text. */
export const TEXT_CHARS_MAX = 200_000;
export const HEX_BYTES_MAX = 16_384;

type Format = "json" | "text" | "hex";

/** One property's value: as JSON laid out, as the text it is, or as bytes. */
export function BodyView({ properties }: { properties: readonly Property[] }) {
  const { t } = useTranslation("message");
  const language = useLanguage();
  const [wanted, setWanted] = useState<string | null>(null);
  const [format, setFormat] = useState<Format | null>(null);
  const shown = properties.find(({ name }) => name === wanted) ?? properties[0];
  const value = shown?.value ?? "";
  const hasJson = useMemo(() => isJson(value), [value]);
  const as: Format = format === "json" && !hasJson ? "text" : (format ?? (hasJson ? "json" : "text"));
  const hex = useMemo(() => hexDump(value, as === "hex" ? HEX_BYTES_MAX : 0), [value, as]);
  if (!shown) return null;
  const text = as === "json" ? prettyJson(value) : as === "hex" ? hex.lines : value;
  const isCut = as === "hex" ? hex.isCut : text.length > TEXT_CHARS_MAX;
  return (
    <Stack gap={6}>
      <Group gap="xs">
        <Select
          size="xs"
          w={180}
          aria-label={t("body.property")}
          allowDeselect={false}
          data={properties.map(({ name }) => name)}
          value={shown.name}
          onChange={setWanted}
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
          {bytes(hex.bytes, language)}
        </Text>
        <CopyIcon value={as === "hex" ? value : text} what={shown.name} />
      </Group>
      {/* A scrolled region has to be reachable by keyboard. */}
      <Code block tabIndex={0} className="message-body" data-body={as}>
        {text.slice(0, TEXT_CHARS_MAX)}
      </Code>
      {isCut && (
        <Text size="xs" c="dimmed">
          {t("body.cut", { shown: bytes(as === "hex" ? HEX_BYTES_MAX : TEXT_CHARS_MAX, language) })}
        </Text>
      )}
    </Stack>
  );
}
